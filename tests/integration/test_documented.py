"""The commands of README and docs that need brokers or Spark, page by page as written."""

from __future__ import annotations

from pathlib import Path

import pytest

from documented import ROOT, blocks, pages, run_page, workplace

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SLOW = [
    path
    for path in pages()
    if any(block.runs and block.slow for block in blocks(path.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("path", SLOW, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_work_as_written(path: Path, tmp_path: Path) -> None:
    assert run_page(path, folder=workplace(tmp_path), slow=True, timeout_s=1700) == []
