from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ackproof.runs import directory as runs
from ackproof.errors import RunDirectoryError
from ackproof.runs.recovery import salvage
from ackproof.scenario.loader import dump, load
from ackproof_spark.tables import LOCATION

SCENARIO = Path(__file__).parents[4] / "scenarios" / "acks-all.yaml"
NOBODY = 2**22 + 1  # above any process id


def begun(path: Path, *, pid: int) -> Path:
    """A run that was started and never ended."""
    path.mkdir()
    dump(load(SCENARIO)[0].scenario, path / "scenario.yaml")
    record = runs.RunRecord(
        run_id=path.name, image="test", pid=pid, started_at=datetime(2026, 1, 1, tzinfo=UTC)
    )
    runs.write_model(path / "run.json", record)
    return path


def test_a_run_that_was_killed_becomes_fit_to_be_judged(tmp_path: Path) -> None:
    run_dir = begun(tmp_path / "run", pid=NOBODY)
    salvage(run_dir)
    record = runs.read_record(run_dir)
    assert record.finished_at is not None
    assert "killed" in record.troubles[0]
    ends = pq.read_table(run_dir / LOCATION["partition_ends"]).to_pylist()
    assert [(end["partition"], end["complete"]) for end in ends] == [
        (0, False),
        (1, False),
        (2, False),
    ]


def test_salvaging_twice_changes_nothing(tmp_path: Path) -> None:
    run_dir = begun(tmp_path / "run", pid=NOBODY)
    salvage(run_dir)
    once = runs.read_record(run_dir)
    salvage(run_dir)
    assert runs.read_record(run_dir) == once


def test_half_a_final_log_counts_as_none(tmp_path: Path) -> None:
    run_dir = begun(tmp_path / "run", pid=NOBODY)
    half = run_dir / LOCATION["final_log"] / "_temporary" / "0"
    half.mkdir(parents=True)
    (half / "part.parquet").write_text("half")
    salvage(run_dir)
    assert pq.read_table(run_dir / LOCATION["final_log"]).num_rows == 0


def test_a_run_that_goes_on_is_left_alone(tmp_path: Path) -> None:
    run_dir = begun(tmp_path / "run", pid=os.getpid())
    with pytest.raises(RunDirectoryError, match="still goes on"):
        salvage(run_dir)
    assert not (run_dir / LOCATION["partition_ends"]).exists()
