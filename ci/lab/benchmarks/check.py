"""Cost of the comparison of a large run, and of DuckDB on the same files and cores.

A run with planted anomalies is generated (`planted`) and compared as every run is (`diff`); the
anomalies found must equal the planted ones, row by row. DuckDB runs two classic queries: acked
sends without a record (an anti-join), and records that occur twice (a GROUP BY). Both take turns;
DuckDB runs in a process of its own, so that memory is measured separately.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackproof.errors import AckproofError, DiskError, translated
from ackproof.waiting import Repeating
from ackproof_spark.tables import LOCATION, Outcome
from benchmarks.planted import Planted, Row, plant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Maximum bytes on disk for a record: ledger, log, and spilled data.
_BYTES_A_RECORD = 40

_SAMPLE_S = 0.1

#: Above this limit DuckDB spills to disk.
_PEER_MEMORY = "6GB"

_PEER = """
import json, resource, sys, time
import duckdb
ledger, log, cores, memory, scratch = sys.argv[1:]
connection = duckdb.connect()
connection.execute("SET enable_progress_bar = false")  # it goes to standard output
connection.execute(f"SET threads = {cores}")
connection.execute(f"SET memory_limit = '{memory}'")
connection.execute(f"SET temp_directory = '{scratch}'")
seconds = {}
for name, query in {
    "anti_join": f'''SELECT count(*) FROM read_parquet('{ledger}') AS sends
        ANTI JOIN read_parquet('{log}') AS records USING (producer, sequence)
        WHERE sends.outcome = 'acked' ''',
    "group_by": f'''SELECT count(*) FROM (SELECT producer, sequence FROM read_parquet('{log}')
        WHERE state = 'intact' GROUP BY producer, sequence HAVING count(*) > 1)''',
}.items():
    began = time.monotonic()
    connection.execute(query).fetchone()
    seconds[name] = time.monotonic() - began
seconds["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps(seconds))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckBench:
    """Seconds of every repetition in order; sizes in bytes.

    `ours_s` is the comparison with all checks, the first in a cold JVM. DuckDB's values are empty
    without the peer. `planted` and `found` count anomalies by kind; `missing` were planted and not
    found, `surplus` found and not planted, at most `SHOWN` rows each.
    """

    records: int
    cores: int
    ledger_bytes: int
    final_log_bytes: int
    ours_s: tuple[float, ...]
    anti_join_s: tuple[float, ...]
    group_by_s: tuple[float, ...]
    shuffle_bytes: int
    peak_bytes: dict[str, int]
    peer_peak_bytes: int
    planted: dict[str, int]
    found: dict[str, int]
    exact: bool
    seed: int = 0
    planting_s: float = 0.0
    missing: list[Row] = field(default_factory=list)
    surplus: list[Row] = field(default_factory=list)

    @property
    def to_anti_join(self) -> float | None:
        """Median of all checks divided by that of DuckDB's anti-join; None without the peer."""
        return self._ratio_to(self.anti_join_s)

    @property
    def to_group_by(self) -> float | None:
        """Median of all checks divided by that of DuckDB's GROUP BY; None without the peer."""
        return self._ratio_to(self.group_by_s)

    def _ratio_to(self, peer_s: Sequence[float]) -> float | None:
        return statistics.median(self.ours_s) / statistics.median(peer_s) if peer_s else None


#: Maximum number of reported rows that differ.
SHOWN = 20


def bench_check(
    *,
    records: int,
    repetitions: int,
    seed: int = 1,
    peer: bool = True,
    folder: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> CheckBench:
    """Generate a run of `records` sends in `folder` (or the temporary folder) and compare it.

    Raises DiskError without enough disk space, SparkError if Spark fails.
    """
    parent = Path(tempfile.gettempdir()) if folder is None else folder
    _require_space(parent, records)
    with tempfile.TemporaryDirectory(prefix="ackproof-bench-", dir=parent) as scratch:
        run_dir = Path(scratch) / "run"
        began = time.monotonic()
        planted = plant(run_dir, records=records, seed=seed)
        planting_s = time.monotonic() - began
        say(f"generated a run of {records:,} sends in {planting_s:.0f} s")
        with translated():
            return replace(
                _measure(run_dir, planted, repetitions=repetitions, peer=peer, say=say),
                seed=seed,
                planting_s=planting_s,
            )


def _measure(
    run_dir: Path, planted: Planted, *, repetitions: int, peer: bool, say: Callable[[str], None]
) -> CheckBench:
    from ackproof_spark.checks.comparison import compare
    from ackproof_spark.spark.session import session

    ours, peers, peaks = [], [], []
    for _ in range(repetitions):
        # Entered for each repetition, because the peer is a child of this process as well.
        with PeakMemory() as memory:
            spark = session()
            began = time.monotonic()
            result = compare(spark, run_dir)
            ours.append(time.monotonic() - began)
        peaks.append(memory.peaks)
        say(f"all checks: {ours[-1]:.1f} s")
        if peer:
            peers.append(_peer(run_dir))
            say(f"DuckDB: anti-join {peers[-1]['anti_join']:.1f} s")
    found = _found(run_dir)
    sends = {outcome: getattr(result, outcome) for outcome in Outcome}
    return CheckBench(
        records=result.sent,
        cores=sum(one.totalCores() for one in _executors(spark)),
        ledger_bytes=_size(run_dir / LOCATION["ledger"]),
        final_log_bytes=_size(run_dir / LOCATION["final_log"]),
        ours_s=tuple(ours),
        anti_join_s=tuple(one["anti_join"] for one in peers),
        group_by_s=tuple(one["group_by"] for one in peers),
        shuffle_bytes=_shuffled(spark) // repetitions,
        peak_bytes={kind: max(one[kind] for one in peaks) for kind in peaks[0]},
        peer_peak_bytes=max((int(one["peak"]) for one in peers), default=0),
        planted=dict(sorted(Counter(row[0] for row in planted.anomalies).items())),
        found=dict(sorted(Counter(row[0] for row in found).items())),
        exact=Counter(found) == Counter(planted.anomalies) and sends == planted.sends,
        missing=sorted(planted.anomalies - set(found), key=str)[:SHOWN],
        surplus=sorted((Counter(found) - Counter(planted.anomalies)).elements(), key=str)[:SHOWN],
    )


def _found(run_dir: Path) -> list[Row]:
    import pyarrow.parquet as pq

    names = ["anomaly", "partition", "producer", "sequence", "offset"]
    rows = pq.read_table(run_dir / LOCATION["anomalies"], columns=names).to_pylist()
    return [tuple(row[name] for name in names) for row in rows]


def _peer(run_dir: Path) -> dict[str, float]:
    """Run both queries in a DuckDB process; return their seconds and its peak memory."""
    files = [str(run_dir / LOCATION[name] / "*.parquet") for name in ("ledger", "final_log")]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            _PEER,
            *files,
            str(os.cpu_count()),
            _PEER_MEMORY,
            str(run_dir.parent),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise AckproofError(
            f"DuckDB failed: {done.stderr.strip().splitlines()[-1:]}",
            hint="Run without DuckDB: --no-peer",
        )
    seconds: dict[str, float] = json.loads(done.stdout)
    return seconds


def _executors(spark: SparkSession) -> list[Any]:
    """Return what Spark's status store tells of each executor; of a local Spark, of the driver."""
    executors: Any = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    return [executors.apply(i) for i in range(executors.size())]


def _shuffled(spark: SparkSession) -> int:
    """Return the shuffled bytes of all jobs so far."""
    return sum(one.totalShuffleWrite() for one in _executors(spark))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _require_space(folder: Path, records: int) -> None:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise DiskError(
            f"cannot use {folder}: {error.strerror}", hint="Name another folder with --out."
        ) from error
    needed = records * _BYTES_A_RECORD
    if free < needed:
        raise DiskError(
            f"{records:,} records need {needed / 1e9:.1f} GB, and {folder} has {free / 1e9:.1f} GB",
            hint="Name a folder with more space with --out, or use fewer --records.",
        )


class PeakMemory(Repeating):
    """Samples resident memory while it is entered; `peaks` are in bytes, by kind and in total.

    Kinds: `driver` (this process), `jvm`, `workers` (all Python processes of Spark). Resident
    memory includes shared pages of each process, so sums are too high.
    """

    def __init__(self) -> None:
        super().__init__(every_s=_SAMPLE_S, name="peak memory")
        self.peaks: dict[str, int] = {"driver": 0, "jvm": 0, "workers": 0, "all": 0}

    def turn(self) -> None:
        """Sample once."""
        now = _resident()
        for kind, size in {**now, "all": sum(now.values())}.items():
            self.peaks[kind] = max(self.peaks[kind], size)


def _resident() -> dict[str, int]:
    import psutil

    me = psutil.Process()
    sizes = {"driver": me.memory_info().rss, "jvm": 0, "workers": 0}
    for child in me.children(recursive=True):
        try:
            sizes[_kind(child)] += child.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return sizes


def _kind(process: Any) -> str:
    return "jvm" if process.name() == "java" else "workers"
