"""What is written into a run directory stays there, whatever links are in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.new_files import create, replacing
from ackproof.runs import directory as runs
from ackproof_spark.tables import CAUSES

PLAN = runs.Clock(of="broker 1", offset_ms=0, give_or_take_ms=1)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text("precious")
    return path


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_text("old")
    with replacing(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_in_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=str(tmp_path)):
        create(tmp_path)


@pytest.mark.parametrize("kind", ["symlink_to", "hardlink_to"])
@pytest.mark.parametrize("suffix", ["", ".partial"])
def test_nothing_is_written_through_links(
    tmp_path: Path, victim: Path, kind: str, suffix: str
) -> None:
    for name in ("verdict.json", "causes.parquet"):
        getattr(tmp_path / (name + suffix), kind)(victim)
    runs.write_model(tmp_path / "verdict.json", PLAN)
    runs.write_table(tmp_path / "causes.parquet", CAUSES, "run", [])
    assert victim.read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("causes.parquet", "verdict.json", "victim")
    ]
    assert runs.read_model(tmp_path, "verdict.json", runs.Clock) == PLAN
