from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ackproof.errors import RunDirectoryError
from ackproof.ledger import arrow_stream
from ackproof.runs import directory as runs
from ackproof.runs import recovery
from ackproof.runs.recovery import recover_run
from ackproof.scenario.loader import dump, load
from ackproof_spark.tables import LOCATION

SCENARIO = Path(__file__).parents[4] / "scenarios" / "acks-all.yaml"
NO_PROCESS = 2**22 + 1  # above any process id


def started(path: Path, *, pid: int) -> Path:
    """Write the files that exist before a run starts its cluster."""
    path.mkdir()
    dump(load(SCENARIO)[0].scenario, path / "scenario.yaml")
    record = runs.RunRecord(
        run_id=path.name, image="test", pid=pid, started_at=datetime(2026, 1, 1, tzinfo=UTC)
    )
    runs.write_model(path / "run.json", record)
    return path


@pytest.mark.parametrize("pid", [NO_PROCESS, 2**70, -(2**70), 0])
def test_a_killed_run_can_be_judged_after_recovery(tmp_path: Path, pid: int) -> None:
    run_dir = started(tmp_path / "run", pid=pid)
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


@pytest.mark.parametrize("table", ["ledger", "final_log", "anomalies"])
def test_a_link_in_place_of_the_folder_of_a_table_is_refused(tmp_path: Path, table: str) -> None:
    run_dir = started(tmp_path / "run", pid=NO_PROCESS)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (run_dir / LOCATION[table]).symlink_to(elsewhere)
    with pytest.raises(RunDirectoryError, match=f"{table} is a link"):
        recover_run(run_dir)
    assert not list(elsewhere.iterdir())


def test_a_folder_in_place_of_a_stream_is_refused(tmp_path: Path) -> None:
    run_dir = started(tmp_path / "run", pid=NO_PROCESS)
    arrow_stream.stream_path(run_dir, "reads", "consumer-0").mkdir(parents=True)
    with pytest.raises(RunDirectoryError, match=r"_consumer-0\.arrows cannot be read"):
        recover_run(run_dir)


@pytest.mark.parametrize("table", ["final_log", "ledger"])
def test_a_file_in_place_of_a_folder_is_refused(tmp_path: Path, table: str) -> None:
    run_dir = started(tmp_path / "run", pid=NO_PROCESS)
    place = run_dir / LOCATION[table]
    place.write_text("")
    with pytest.raises(RunDirectoryError, match=f"{place.name} is a file, not a folder"):
        recover_run(run_dir)


#: A client whose harness was killed: it writes once more when it is told, and then ends.
CLIENT = """\
import sys
from pathlib import Path
from ackproof.ledger.arrow_stream import TableStream
from ackproof_spark.tables import CONSUMER_EVENTS
constants = {"run_id": "run", "consumer": 0, "group": "readers", "event": "revoked"}
stream = TableStream(Path(sys.argv[1]), CONSUMER_EVENTS, constants)
for line in sys.stdin:
    stream.write({"at": [0], "poll": [int(line)]})
    print(line, end="", flush=True)
"""


def test_rows_that_a_client_writes_after_the_harness_was_killed_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = started(tmp_path / "run", pid=NO_PROCESS)
    stream = arrow_stream.stream_path(run_dir, "consumer_events", "consumer-0")
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(stream)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        for poll in (0, 1):
            client.stdin.write(f"{poll}\n")
            client.stdin.flush()
            assert client.stdout.readline() == f"{poll}\n"
            monkeypatch.setattr(recovery, "CLIENTS_END_S", 0.1)
            with pytest.raises(RunDirectoryError, match=r"still write, for example _consumer-0"):
                recover_run(run_dir)
        client.stdin.close()
        monkeypatch.undo()
        recover_run(run_dir)
    events = pq.read_table(run_dir / LOCATION["consumer_events"])
    assert events["poll"].to_pylist() == [0, 1]


def test_a_run_in_progress_is_refused(tmp_path: Path) -> None:
    run_dir = started(tmp_path / "run", pid=os.getpid())
    with pytest.raises(RunDirectoryError, match="still in progress"):
        recover_run(run_dir)
    assert not (run_dir / LOCATION["partition_ends"]).exists()
