"""What the comparison of a run costs at scale, beside DuckDB on the same files and cores.

A run with planted anomalies is made (`planted`), compared as every run is (`diff`), and what was
found is held against what was planted, row by row. The peer's two questions are the classic ones:
which acked sends have no record (an anti-join), and which names stand twice (a GROUP BY). Both
sides take turns; the peer in a process of its own, so that neither has the other's memory.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackproof.bench.planted import Planted, Row, plant
from ackproof.bench.processes import PeakMemory
from ackproof.errors import AckproofError, DiskError, translated
from ackproof_spark.tables import LOCATION, Outcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Bytes on disk that a record takes at most: ledger and log, and what either side spills.
_BYTES_A_RECORD = 40

#: Beyond this DuckDB spills to disk.
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
    """What was measured: seconds of every repetition, in order; sizes in bytes.

    `ours_s` is the whole comparison, all checks, the first in a cold JVM. The peer's are empty if
    it was left out. `planted` and `found` count anomalies by kind; `missing` was planted and not
    found, `surplus` found and not planted, at most `SHOWN` each.
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
        """All our checks over DuckDB's anti-join alone: medians; None without the peer."""
        if not self.anti_join_s:
            return None
        return statistics.median(self.ours_s) / statistics.median(self.anti_join_s)

    @property
    def to_group_by(self) -> float | None:
        """All our checks over DuckDB's GROUP BY alone: medians; None without the peer."""
        if not self.group_by_s:
            return None
        return statistics.median(self.ours_s) / statistics.median(self.group_by_s)


#: How many rows of a disagreement are kept.
SHOWN = 20


def bench_check(
    *,
    records: int,
    seed: int,
    repetitions: int,
    peer: bool,
    folder: Path | None,
    say: Callable[[str], None],
) -> CheckBench:
    """Make a run of `records` sends below `folder` (or the system's), compare it, and remove it.

    Raises AckproofError if a library is missing, DiskError if there is too little room, SparkError
    if Spark fails.
    """
    _check_libraries(peer)
    parent = Path(tempfile.gettempdir()) if folder is None else folder
    _check_room(parent, records)
    with tempfile.TemporaryDirectory(prefix="ackproof-bench-", dir=parent) as scratch:
        run_dir = Path(scratch) / "run"
        began = time.monotonic()
        planted = plant(run_dir, records=records, seed=seed)
        planting_s = time.monotonic() - began
        say(f"made a run of {records:,} sends in {planting_s:.0f} s")
        with translated():
            return replace(
                _measure(run_dir, planted, repetitions=repetitions, peer=peer, say=say),
                seed=seed,
                planting_s=planting_s,
            )


def _measure(
    run_dir: Path, planted: Planted, *, repetitions: int, peer: bool, say: Callable[[str], None]
) -> CheckBench:
    from ackproof_spark.checks.diff import diff
    from ackproof_spark.spark.session import session

    ours, peers, peaks = [], [], []
    for _ in range(repetitions):
        # Entered anew each time: the peer is a child of this process as well, and not ours.
        with PeakMemory() as memory:
            spark = session()
            began = time.monotonic()
            result = diff(spark, run_dir)
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
        cores=os.cpu_count() or 1,
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
    """Ask DuckDB both questions in a process of its own; return seconds, and its peak memory."""
    places = [str(run_dir / LOCATION[name] / "*.parquet") for name in ("ledger", "final_log")]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            _PEER,
            *places,
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
            hint="leave it out with --no-peer",
        )
    seconds: dict[str, float] = json.loads(done.stdout)
    return seconds


def _shuffled(spark: SparkSession) -> int:
    """Return the bytes that all jobs so far have shuffled, from Spark's own status store."""
    executors: Any = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    return sum(executors.apply(i).totalShuffleWrite() for i in range(executors.size()))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _check_libraries(peer: bool) -> None:
    for name in ("psutil", "duckdb") if peer else ("psutil",):
        if importlib.util.find_spec(name) is None:
            raise AckproofError(
                f"this benchmark needs {name}, which is not installed",
                hint="pip install 'ackproof[bench]'"
                + (", or leave DuckDB out with --no-peer" if name == "duckdb" else ""),
            )


def _check_room(folder: Path, records: int) -> None:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise DiskError(
            f"cannot use {folder}: {error.strerror}", hint="name a folder with --out"
        ) from error
    needed = records * _BYTES_A_RECORD
    if free < needed:
        raise DiskError(
            f"{records:,} records need {needed / 1e9:.1f} GB, and {folder} has {free / 1e9:.1f} GB",
            hint="name a folder with more room with --out, or fewer records with --records",
        )
