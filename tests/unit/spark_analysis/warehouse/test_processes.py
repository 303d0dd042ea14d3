"""Several processes load into one warehouse, and one is killed during its load."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ackproof.errors import SparkError
from ackproof.waiting import wait_for
from ackproof_spark.warehouse.formats import Format
from unit.spark_analysis.warehouse.conftest import FORMATS, judged

pytestmark = pytest.mark.spark

ACKPROOF = "from ackproof.cli.main import main; main()"


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", ACKPROOF, "warehouse", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def outcome(process: subprocess.Popen[str]) -> dict:
    said, complaint = process.communicate()
    assert process.returncode == 0, complaint
    return json.loads(said)


def rows(place: Path) -> dict[str, int]:
    return outcome(start("info", place, "--json"))["rows"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_concurrent_loads_and_a_load_that_is_killed(tmp_path, kind, run_dirs):
    both, first, second = (run_dirs[name] for name in ("one", "two", "all"))
    place = tmp_path / "warehouse"

    # The warehouse does not exist: both processes create it.
    processes = [
        start("load", both, own, "--into", place, "--format", kind, "--json")
        for own in (first, second)
    ]
    results = [outcome(process)["runs"] for process in processes]
    assert sorted(run["run_id"] for result in results for run in result) == sorted(
        run.name for run in (both, both, first, second)
    )
    assert sorted(run["result"] for result in results for run in result) == [
        "already there",
        *["loaded"] * 3,
    ]
    found = rows(place)
    assert (found["runs"], found["fault_windows"]) == (3, 6)

    # Killed between the first table of a load and its last, which is `runs`.
    late = run_dirs["file-all"]
    before = stored(place, kind)
    killed = start("load", late, "--into", place, "--sends")
    try:
        wait_for(
            lambda: (killed.poll(), stored(place, kind)),
            until=lambda seen: (
                seen[0] is not None or seen[1]["predictions"] > before["predictions"]
            ),
            within_s=300,
            failure=lambda seen: SparkError(f"nothing was written: {seen}"),
        )
    finally:
        killed.kill()
        killed.communicate()
    assert stored(place, kind)["runs"] == before["runs"], "killed too late"
    assert rows(place) == found
    assert outcome(start("load", late, "--into", place, "--sends", "--json"))["runs"] == [
        {"run_id": late.name, "result": "loaded"}
    ]
    whole = rows(place)
    assert (whole["runs"], whole["fault_windows"]) == (4, 8)
    assert whole["sends"] > 0
    assert whole["predictions"] == found["predictions"] + len(judged(late).predictions)


def stored(place: Path, kind: Format) -> dict[str, int]:
    """Return the number of commits (in Parquet: of data files) of two tables."""
    pattern = {
        Format.DELTA: "_delta_log/*.json",
        Format.ICEBERG: "metadata/*.metadata.json",
        Format.PARQUET: "run_date=*/*-part-*.parquet",
    }[kind]
    return {
        table: len(list((place / "ackproof" / table).glob(pattern)))
        for table in ("predictions", "runs")
    }


def test_the_lock_excludes_a_second_process(tmp_path, spark):
    """Control of the test above: without the lock, two commits could overwrite each other."""
    from ackproof_spark.warehouse.warehouse import Storage

    storage = Storage.of(spark, str(tmp_path / "place"))
    contender = (
        "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)",
        str(tmp_path / "place" / ".lock"),
    )
    with storage.lock():
        refused = subprocess.run(
            [sys.executable, "-c", *contender], capture_output=True, text=True, check=False
        )
        assert "BlockingIOError" in refused.stderr
    subprocess.run([sys.executable, "-c", *contender], check=True)
