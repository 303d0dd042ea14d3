from __future__ import annotations

import errno
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from ackproof.errors import DiskError, RunDirectoryError
from ackproof.runs import directory as runs
from ackproof_spark.tables import PARTITION_ENDS

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def create(out: Path, configuration: str = "") -> Path:
    return runs.create(out, scenario="acks", configuration=configuration, seed=7, now=NOW)


def test_a_run_directory_is_named_by_time_scenario_configuration_and_seed(tmp_path: Path) -> None:
    assert create(tmp_path / "runs").name == "20260102T030405Z-acks-7"
    path = create(tmp_path, "acks=all, min.insync.replicas=2")
    assert path.name == "20260102T030405Z-acks-acks-all-min.insync.replicas-2-7"


def test_two_runs_in_one_second_get_two_directories_and_latest_is_the_second(
    tmp_path: Path,
) -> None:
    first, second = create(tmp_path), create(tmp_path)
    assert first != second
    assert (tmp_path / "latest").resolve() == second


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(DiskError, match="runs"):
        create(tmp_path / "runs")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_an_unwritable_disk_raises_disk_error(number: int, tmp_path: Path) -> None:
    with pytest.raises(DiskError, match=str(tmp_path)), runs.disk_errors(tmp_path):
        raise OSError(number, "no")


def test_other_os_errors_are_not_caught(tmp_path: Path) -> None:
    with pytest.raises(ChildProcessError), runs.disk_errors(tmp_path):
        raise ChildProcessError(errno.ECHILD, "no")


def test_a_table_carries_schema_version_and_run_id(tmp_path: Path) -> None:
    row = {
        "topic": "orders",
        "partition": 0,
        "begin_offset": 0,
        "end_offset": 5,
        "complete": True,
        "reason": None,
    }
    runs.write_table(tmp_path / "t.parquet", PARTITION_ENDS, "run-1", [row])
    (read,) = pq.read_table(tmp_path / "t.parquet").to_pylist()
    assert read == {"schema_version": 1, "run_id": "run-1", **row}


def test_another_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match=r"has no run\.json"):
        runs.read_record(tmp_path)


DEEP = '{"a":' * 100_000 + "1" + "}" * 100_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"run_id": ', "invalid JSON: EOF while parsing a value at line 1 column 11"),
        ('{"run_id": "a", "image": "b", "pid": 1.5}', "pid: input should be .* \\(and 1 more\\)"),
        (DEEP, "invalid JSON: recursion limit exceeded at line 1 column [0-9]+"),
        ("[" * 100_000, "invalid JSON: recursion limit exceeded at line 1 column [0-9]+"),
        (f'{{"troubles": {DEEP}}}', "invalid JSON: recursion limit exceeded at line 1 column"),
    ],
    ids=["cut off", "wrong", "deep", "deep list", "deep inside"],
)
def test_a_damaged_record_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(RunDirectoryError, match=rf"run\.json is damaged: {said}") as caught:
        runs.read_record(tmp_path)
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300
    assert "again" in (caught.value.hint or "")


@pytest.mark.parametrize("free", [runs.LEAST_FREE - 1, runs.LEAST_FREE])
def test_no_run_begins_on_a_full_disk(tmp_path, monkeypatch, free):
    usage = SimpleNamespace(total=10**12, used=0, free=free)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    if free == runs.LEAST_FREE:
        assert create(tmp_path).is_dir()
        return
    with pytest.raises(DiskError, match=f"the disk under {tmp_path} is full") as refused:
        create(tmp_path)
    assert refused.value.exit_code == 4
    assert list(tmp_path.iterdir()) == []
