"""Cost of `ackproof check` of a small stored run, and of a plain PySpark session with one query.

Each turn runs both as processes of their own. The session counts the outcomes of the same run's
ledger. Seconds of CPU include the JVM's; on a busy machine they say more than the wall clock's.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallBench:
    """Spark jobs of one judgement; seconds of every turn: wall clock, and CPU."""

    jobs: int
    check: tuple[tuple[float, float], ...]
    plain: tuple[tuple[float, float], ...]

    @property
    def ratio(self) -> float:
        """Median seconds of the check, divided by those of the plain session."""
        return self._ratio(0)

    @property
    def cpu_ratio(self) -> float:
        return self._ratio(1)

    def _ratio(self, which: int) -> float:
        ours, plain = (
            statistics.median(seconds[which] for seconds in turns)
            for turns in (self.check, self.plain)
        )
        return ours / plain


def bench_check_small(run_dir: Path, *, repetitions: int) -> SmallBench:
    """Check a copy of a stored run, in turns with a plain session that reads its ledger."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / run_dir.name
        shutil.copytree(run_dir, copy)
        ledger = str(copy / LOCATION["ledger"])
        check = [str(Path(sys.executable).with_name("ackproof")), "check", str(copy), "--json"]
        plain = [sys.executable, "-c", _PLAIN, ledger]
        counted = subprocess.run(
            [sys.executable, "-c", _JOBS, str(copy)], capture_output=True, text=True, check=True
        )
        turns = [(_seconds(plain), _seconds(check)) for _ in range(repetitions)]
    return SmallBench(
        jobs=int(counted.stdout.split()[-1]),
        plain=tuple(plain for plain, _ in turns),
        check=tuple(check for _, check in turns),
    )


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
