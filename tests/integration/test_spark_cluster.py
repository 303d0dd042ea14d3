"""The analysis on a real Spark cluster: spark-submit, a standalone master, Spark Connect.

Whatever becomes of executors, drivers and disks: the same result as in this process, or a clear
refusal; never a zero that nobody counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ackproof_spark.tables import LOCATION
from integration.command import (
    ROOT,
    ackproof,
    printed,
    started,
)
from spark_clusters import (
    HOME,
    SparkCluster,
    bare_python,
    connect_server,
    environment,
    standalone,
)
from spark_histories import History, parse
from support.run_directories import store

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: One anomaly of each kind that the comparison finds.
PLANTED = parse(
    {
        "sends": [
            "1/0 to 0: acked at 0",
            "1/1 to 0: acked at 1",
            "1/2 to 0: acked at 2",
            "1/3 to 0: acked at 3",
            "1/4 to 0: failed X",
        ],
        "log": ["0@0: 1/0", "0@1: 1/2", "0@2: 1/1", "0@3: 1/1", "0@4: 1/4", "0@5: corrupt"],
        "ends": ["0: 0-6"],
    }
)
FOUND = {
    **dict.fromkeys(("lost", "duplicated", "reordered", "phantom", "corrupt"), 1),
    "inconsistent": 2,
    "unseen": 0,
}
CLEAN = parse(
    {
        "sends": [f"1/{i} to 0: acked at {i}" for i in range(50)],
        "log": [f"0@{i}: 1/{i}" for i in range(50)],
        "ends": ["0: 0-50"],
    }
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with standalone(tmp_path_factory.mktemp("standalone")) as started:
        yield started


@pytest.fixture(scope="module")
def connect(cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    # One core is left for other applications.
    settings = {"spark__cores__max": "1", "spark__sql__shuffle__partitions": "4"}
    folder = tmp_path_factory.mktemp("connect")
    with connect_server(folder, master=cluster.master, **settings) as url:
        yield url


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The installed wheel, without this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    subprocess.run(
        [sys.executable, "-m", "pip", *build, "--wheel-dir", folder, ROOT],
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("ackproof-*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_python(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="module")
def package(wheel: Path, bare: Path) -> Path:
    """A zip of the installed wheel."""
    path = wheel.parent / "ackproof.zip"
    made = subprocess.run(
        [bare, "-m", "ackproof_spark.spark.executor_zip", path],
        env=environment(PYTHONPATH=str(wheel)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout.strip() == str(path)
    return path


def submit(
    cluster: SparkCluster, bare: Path, wheel: Path, *arguments: str | Path
) -> subprocess.CompletedProcess[str]:
    """Run spark-submit as in docs/reference/spark.md, without this checkout anywhere."""
    return subprocess.run(
        [
            *(HOME / "bin" / "spark-submit", "--master", cluster.master),
            *("--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=4"),
            *arguments,
        ],
        env=environment(PYSPARK_PYTHON=str(bare)),
        cwd=cluster.folder,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def test_the_bare_interpreter_has_no_ackproof(bare: Path, wheel: Path) -> None:
    line = [str(bare), "-c", "import pyarrow, confluent_kafka; import ackproof_spark as a"]
    without = subprocess.run(line, env=environment(), capture_output=True, text=True, check=False)
    assert "No module named 'ackproof" in without.stderr
    subprocess.run(line, env=environment(PYTHONPATH=str(wheel)), check=True)


def test_the_diff_by_spark_submit(
    cluster: SparkCluster, bare: Path, wheel: Path, package: Path, tmp_path: Path
) -> None:
    run_dir = store(tmp_path / "run", PLANTED)
    job = wheel / "ackproof_spark" / "job.py"
    result = submit(
        cluster, bare, wheel, "--py-files", package, job, "diff", "--input", f"file://{run_dir}"
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert {name: found[name] for name in FOUND} == FOUND
    assert pq.read_table(run_dir / LOCATION["anomalies"]).num_rows == sum(FOUND.values())


def test_a_directory_that_the_job_cannot_read_is_reported(
    cluster: SparkCluster, bare: Path, wheel: Path, package: Path, tmp_path: Path
) -> None:
    job = wheel / "ackproof_spark" / "job.py"
    result = submit(
        cluster, bare, wheel, "--py-files", package, job, "diff", "--input", f"file://{tmp_path}/no"
    )
    assert result.returncode == 2
    # spark-submit prints both streams of its Python process to standard output.
    assert "has no table ledger" in result.stdout
    assert "Traceback" not in result.stdout + result.stderr


def judged(run_dir: Path, master: str) -> tuple[int, dict[str, Any]]:
    result = ackproof("check", run_dir, "--spark", master, "--json")
    assert result.stdout, result.stderr
    return result.returncode, printed(result)


@pytest.mark.parametrize(("history", "code"), [(PLANTED, 1), (CLEAN, 0)], ids=["planted", "clean"])
def test_check_gives_the_same_verdict_wherever_spark_runs(
    history: History, code: int, cluster: SparkCluster, connect: str, tmp_path: Path
) -> None:
    run_dir = store(tmp_path / "run", history)
    here = judged(run_dir, "local[*]")
    assert here[0] == code
    assert judged(run_dir, connect) == here
    if code:
        assert here[1]["observed"] | FOUND == here[1]["observed"]
    else:
        assert judged(run_dir, cluster.master) == here


def dying(
    cluster: SparkCluster, run_dir: Path, *, kill: int, no_more: bool = False
) -> subprocess.CompletedProcess[str]:
    """Check a run while its first `kill` executors are killed, and `no_more` can start."""
    with started("check", run_dir, "--spark", cluster.master, "--json") as process:
        killed: set[int] = set()
        while process.poll() is None:
            for executor in cluster.executors():
                if len(killed) < kill and executor.pid not in killed:
                    if no_more:
                        cluster.refuse_executors_like(executor)
                    executor.kill()
                    killed.add(executor.pid)
            time.sleep(0.05)  # executors come and go; nobody tells
        out, errors = process.communicate()
    assert killed
    return subprocess.CompletedProcess([], process.returncode, out, errors)


def test_a_lost_executor_does_not_change_the_verdict(cluster: SparkCluster, tmp_path: Path) -> None:
    result = dying(cluster, store(tmp_path / "run", PLANTED), kill=1)
    assert result.returncode == 1, result.stderr
    observed = printed(result)["observed"]
    assert {name: observed[name] for name in FOUND} == FOUND


def test_without_executors_there_is_no_verdict(cluster: SparkCluster, tmp_path: Path) -> None:
    result = dying(cluster, store(tmp_path / "run", PLANTED), kill=1000, no_more=True)
    assert (result.returncode, result.stdout) == (4, "")
    assert "executor" in result.stderr or "Spark does not answer" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_benchmark_finds_what_it_planted_on_a_cluster(cluster: SparkCluster) -> None:
    options = ("--records", "900000", "--repetitions", "1", "--no-peer", "--spark", cluster.master)
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks", "check", *options],
        cwd=ROOT / "ci",
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    measured = printed(result)
    assert measured["cores"] == len(cluster.workers)
    assert measured["found"] == measured["planted"]
