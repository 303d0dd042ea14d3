"""Closes the record of a run, and prepares the directory of an interrupted one for judging.

Recorded data is not changed. Missing tables are added, with every partition marked as not read. The
judge then counts acked sends as unseen, not as lost, and the run is inconclusive.
"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

from ackproof.errors import RunDirectoryError
from ackproof.ledger import arrow_stream, conversion
from ackproof.machine import is_running
from ackproof.runs import directory as runs
from ackproof.runs import manifest
from ackproof.runs.directory import RunRecord
from ackproof.scenario.loader import load_stored
from ackproof.waiting import wait_for
from ackproof_spark.tables import FAULT_WINDOWS, FINAL_LOG, LOCATION, PARTITION_ENDS

#: Maximum time that clients take to end after their harness.
CLIENTS_END_S = 120.0


def seal(run_dir: Path, record: RunRecord) -> None:
    """Write `run.json` and the manifest of a run whose recording has ended. Raises DiskError."""
    conversion.close(run_dir)
    _add_absent_tables(run_dir, record.run_id)
    runs.write_model(run_dir / "run.json", record.model_copy(update={"sealed": True}))
    manifest.write(run_dir, record.run_id)


def recover_run(run_dir: Path) -> None:
    """Check the evidence of a sealed run; seal one that was interrupted.

    A second call changes nothing. Raises RunDirectoryError if this is not a run directory, the run
    is in progress, a recorded file was changed, or the folder of a table is a link.
    """
    runs.refuse_special_files(run_dir)
    record = runs.read_record(run_dir)
    _refuse_links(run_dir)
    if manifest.exists(run_dir):
        manifest.verify(run_dir, record.run_id)
        return
    if record.finished_at is None and is_running(record.pid):
        raise RunDirectoryError(
            f"{run_dir.name} is still in progress (process {record.pid})",
            hint="Wait until it ends: only then can its ledger be closed.",
        )
    if record.finished_at is None:
        wait_for(
            lambda: arrow_stream.in_use(run_dir),
            lambda streams: not streams,
            within_s=CLIENTS_END_S,
            failure=lambda streams: RunDirectoryError(
                f"clients of {run_dir.name} still write, for example {streams[0].name}",
                hint="They end by themselves after their harness, unless they are suspended.",
            ),
        )
        last_change = max(path.lstat().st_mtime for path in run_dir.rglob("*"))
        ended = {
            "finished_at": datetime.fromtimestamp(last_change, tz=UTC),
            "troubles": [*record.troubles, "the harness was killed before the run ended"],
        }
        seal(run_dir, record.model_copy(update=ended))
        return
    if not (run_dir / LOCATION["partition_ends"]).exists() and any(
        (run_dir / LOCATION["final_log"]).rglob("*.parquet")
    ):
        raise RunDirectoryError(
            f"{run_dir} has a final log, and {LOCATION['partition_ends']} is missing",
            hint="Restore the file from a copy: it records how far the log was read.",
        )
    conversion.close(run_dir)
    _add_absent_tables(run_dir, record.run_id)


def _refuse_links(run_dir: Path) -> None:
    """Refuse links, because the judge writes only inside the run directory."""
    for location in LOCATION.values():
        path = run_dir / location
        if not location.suffix and path.is_symlink():
            raise RunDirectoryError(f"{path} is a link", hint="Put the folder itself there.")


def _add_absent_tables(run_dir: Path, run_id: str) -> None:
    if not (run_dir / LOCATION["fault_windows"]).exists():
        runs.write_table(run_dir / LOCATION["fault_windows"], FAULT_WINDOWS, run_id, [])
    _own_folder(run_dir / LOCATION["ledger"]).mkdir(exist_ok=True)
    if (run_dir / LOCATION["partition_ends"]).exists():
        return
    # Spark writes the ends after the final log. Without ends, the final log is incomplete.
    scenario = load_stored(run_dir).scenario
    folder = _own_folder(run_dir / LOCATION["final_log"])
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


def _own_folder(path: Path) -> Path:
    """Return the path unless it is a file."""
    if path.exists() and not path.is_dir():
        raise RunDirectoryError(
            f"{path} is a file, not a folder",
            hint="Judge the directory as it was recorded: restore the folder from a copy.",
        )
    return path
