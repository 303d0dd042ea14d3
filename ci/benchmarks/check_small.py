"""Cost of `ackproof check` of a small stored run, and of a plain PySpark session with one query.

    .venv/bin/python -m benchmarks.check_small RUN_DIR [TURNS]

Each turn runs both as processes of their own. The session counts the outcomes of the same run's
ledger. Seconds of CPU include the JVM's; on a busy machine they say more than the wall clock's.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ackproof_spark.tables import LOCATION

#: Linux: processes whose parent has ended become children of this one (prctl(2)).
_SUBREAPER = 36

_PLAIN = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
print(spark.read.parquet(sys.argv[1]).groupBy("outcome").count().collect())
spark.stop()
"""

#: Counts the jobs of a judgement, with Spark's own tracker.
_JOBS = """
import sys
from pathlib import Path
from ackproof.judgement.judge import judge_run
from ackproof_spark.spark.session import session
judge_run(Path(sys.argv[1]))
print(len(session().sparkContext.statusTracker().getJobIdsForGroup(None)))
"""


def bench_check_small(run_dir: Path, *, turns: int) -> dict[str, Any]:
    """Return the Spark jobs of a judgement, and for each process its median seconds and ratio."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / run_dir.name
        shutil.copytree(run_dir, copy)
        ledger = str(copy / LOCATION["ledger"])
        check = [str(Path(sys.executable).with_name("ackproof")), "check", str(copy), "--json"]
        plain = [sys.executable, "-c", _PLAIN, ledger]
        counted = subprocess.run(
            [sys.executable, "-c", _JOBS, str(copy)], capture_output=True, text=True, check=True
        )
        seconds: dict[str, list[tuple[float, float]]] = {"check": [], "plain": []}
        for _ in range(turns):
            seconds["plain"].append(_seconds(plain))
            seconds["check"].append(_seconds(check))
    (check_wall, check_cpu), (plain_wall, plain_cpu) = (
        [statistics.median(times) for times in zip(*seconds[name], strict=True)]
        for name in ("check", "plain")
    )
    return {
        "jobs": int(counted.stdout.split()[-1]),
        "check_s": check_wall,
        "plain_s": plain_wall,
        "check_cpu_s": check_cpu,
        "plain_cpu_s": plain_cpu,
        "ratio": check_wall / plain_wall,
        "cpu_ratio": check_cpu / plain_cpu,
    }


def _seconds(command: Sequence[str]) -> tuple[float, float]:
    """Run a command; return its seconds of wall clock and of CPU, those of its children too."""
    before, began = os.times(), time.monotonic()
    subprocess.run(command, capture_output=True, check=False)
    seconds = time.monotonic() - began
    with contextlib.suppress(ChildProcessError):  # PySpark's JVM may end after its Python
        while True:
            os.wait()
    after = os.times()
    cpu = after.children_user + after.children_system
    return seconds, cpu - before.children_user - before.children_system


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)
    print(json.dumps(bench_check_small(Path(sys.argv[1]), turns=int((sys.argv[2:] or ["5"])[0]))))
