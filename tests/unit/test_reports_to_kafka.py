"""Reports to Kafka have one form."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "reports-to-kafka"
PAGES = [page for page in sorted(FOLDER.glob("*.md")) if page.stem != "README"]
SECTIONS = ["Show it", "Why", "A fix", "How likely, and what helps"]


@pytest.mark.parametrize(
    "page", [one for one in PAGES if one.stem != "README"], ids=lambda p: p.stem
)
def test_a_report_says_how_it_was_shown_and_what_helps(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    sections = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert sections == SECTIONS
    first = text.partition("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in first.splitlines() if line.startswith("| ")]
    assert [row for row in rows if row] == ["shown", "versions", "known"]
    assert page.name in (page.parent / "README.md").read_text(encoding="utf-8")
