"""Makes the directory of a run that ended early fit to be judged.

Whatever was recorded stays as it is; what is missing is written down as missing, so that the
judge finds every acked send unseen rather than lost, and the run inconclusive.
"""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from ackproof.ledger import finalize
from ackproof.runs import directory as runs
from ackproof.errors import RunDirectoryError
from ackproof.scenario.loader import load
from ackproof_spark.tables import (
    FAULT_WINDOWS,
    FINAL_LOG,
    LOCATION,
    PARTITION_ENDS,
)


def salvage(run_dir: Path) -> None:
    """Close the ledger and add the tables that the run did not come to write; twice is a no-op.

    Raises RunDirectoryError if this is no run directory, or if the run still goes on.
    """
    record = runs.read_record(run_dir)
    if record.finished_at is None and _alive(record.pid):
        raise RunDirectoryError(
            f"{run_dir.name} still goes on in process {record.pid}",
            hint="Wait for its end; its ledger must not be closed under it.",
        )
    last_change = max(path.stat().st_mtime for path in run_dir.rglob("*"))
    finalize.close(run_dir)
    _write_missing_tables(run_dir, record.run_id)
    if record.finished_at is None:
        ended = {
            "finished_at": datetime.fromtimestamp(last_change, tz=UTC),
            "troubles": [*record.troubles, "the harness was killed before the run ended"],
        }
        runs.write_model(run_dir / "run.json", record.model_copy(update=ended))


def _write_missing_tables(run_dir: Path, run_id: str) -> None:
    if not (run_dir / LOCATION["fault_windows"]).exists():
        runs.write_table(run_dir / LOCATION["fault_windows"], FAULT_WINDOWS, run_id, [])
    (run_dir / LOCATION["ledger"]).mkdir(exist_ok=True)
    if (run_dir / LOCATION["partition_ends"]).exists():
        return
    # Spark stores the final log before its ends: without ends, what lies there is half a log.
    scenario = load(run_dir / "scenario.yaml")[0].scenario
    folder = run_dir / LOCATION["final_log"]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    runs.write_table(folder / "none.parquet", FINAL_LOG, run_id, [])
    ends = [
        {
            "topic": topic,
            "partition": partition,
            "begin_offset": 0,
            "end_offset": 0,
            "complete": False,
            "reason": "the run ended before its final log was read",
        }
        for topic, partition in scenario.written
    ]
    runs.write_table(run_dir / LOCATION["partition_ends"], PARTITION_ENDS, run_id, ends)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
