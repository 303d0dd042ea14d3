from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ackproof.errors import RunDirectoryError
from ackproof.runs import directory as runs
from ackproof.runs.recovery import recover_run
from ackproof.scenario.loader import dump, load
from ackproof_spark.tables import LOCATION

SCENARIO = Path(__file__).parents[4] / "scenarios" / "acks-all.yaml"
NO_PROCESS = 2**22 + 1  # above any process id


def started(path: Path, *, pid: int) -> Path:
    """Write what a run has written until it starts its cluster."""
    path.mkdir()
    dump(load(SCENARIO)[0].scenario, path / "scenario.yaml")
    record = runs.RunRecord(
        run_id=path.name, image="test", pid=pid, started_at=datetime(2026, 1, 1, tzinfo=UTC)
    )
    runs.write_model(path / "run.json", record)
    return path


def test_a_killed_run_can_be_judged_after_recovery(tmp_path: Path) -> None:
    run_dir = started(tmp_path / "run", pid=NO_PROCESS)
    recover_run(run_dir)
    record = runs.read_record(run_dir)
    assert record.finished_at is not None
    assert "killed" in record.troubles[0]
    ends = pq.read_table(run_dir / LOCATION["partition_ends"]).to_pylist()
    assert [(end["partition"], end["complete"]) for end in ends] == [
        (0, False),
        (1, False),
        (2, False),
    ]


def test_a_second_recovery_changes_nothing(tmp_path: Path) -> None:
    run_dir = started(tmp_path / "run", pid=NO_PROCESS)
    recover_run(run_dir)
    once = runs.read_record(run_dir)
    recover_run(run_dir)
    assert runs.read_record(run_dir) == once


def test_an_incomplete_final_log_is_discarded(tmp_path: Path) -> None:
    run_dir = started(tmp_path / "run", pid=NO_PROCESS)
    half = run_dir / LOCATION["final_log"] / "_temporary" / "0"
    half.mkdir(parents=True)
    (half / "part.parquet").write_text("half")
    recover_run(run_dir)
    assert pq.read_table(run_dir / LOCATION["final_log"]).num_rows == 0


def test_a_run_in_progress_is_refused(tmp_path: Path) -> None:
    run_dir = started(tmp_path / "run", pid=os.getpid())
    with pytest.raises(RunDirectoryError, match="still in progress"):
        recover_run(run_dir)
    assert not (run_dir / LOCATION["partition_ends"]).exists()
