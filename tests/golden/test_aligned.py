"""The pass by offset and the oracle give the same anomalies.

Histories are random, in row groups and slices of a few rows, so that there are many borders.
`test_anomalies` compares the general path with the oracle. `ACKPROOF_HISTORIES`
(`ci/lab/histories`) raises the number of histories, and takes them along the general path, too.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ackproof_spark import tables
from ackproof_spark.anomaly import OF_LOG
from ackproof_spark.matching.row_groups import Sizing
from golden.oracle import anomalies
from golden.random_runs import CASES, damaged_history, random_histories
from spark_histories import History, anomalies_of, parse, show, write_run

pytestmark = pytest.mark.spark

SEED = 20260102
ASKED = os.environ.get("ACKPROOF_HISTORIES")
HISTORIES = min(150, int(ASKED or "8"))
#: A slice is a task of Spark.
TINY = Sizing(from_rows=0, rows_a_slice=24 if ASKED else 60, placed=0.0)
NEVER = Sizing(placed=2.0)  # no run has so large a share of sends with an offset
DRIVER = Sizing(placed=0.0)


def lay_out(run_dir: Path, *, rows: int) -> None:
    """Sort the tables of `write_run` as a run does: by producer, and by partition and offset."""
    ledger_file = run_dir / tables.LOCATION["ledger"] / "part-0.parquet"
    ledger = pq.read_table(ledger_file)
    ledger_file.unlink()
    for index, part in enumerate(_parts(ledger, ["topic", "producer"])):
        place = ledger_file.with_name(f"producer-{index}.parquet")
        with pq.ParquetWriter(place, tables.LEDGER) as writer:
            for start in range(0, part.num_rows, rows):
                group = part.slice(start, rows)
                order = [("partition", "ascending"), ("offset", "ascending")]
                writer.write_table(group.sort_by(order), row_group_size=rows)
    log_file = run_dir / tables.LOCATION["final_log"] / "part-0.parquet"
    log = pq.read_table(log_file)
    log_file.unlink()
    for index, part in enumerate(_parts(log, ["topic", "partition"])):
        records = part.sort_by("offset")
        for start in range(0, part.num_rows, 3 * rows):
            place = log_file.with_name(f"part-{index}-{start}.parquet")
            pq.write_table(records.slice(start, 3 * rows), place, row_group_size=rows)
    for place, schema in ((ledger_file, tables.LEDGER), (log_file, tables.FINAL_LOG)):
        pq.write_table(schema.empty_table(), place)  # files without rows are legal


def _parts(table: pa.Table, keys: list[str]) -> list[pa.Table]:
    parts = []
    for row in table.group_by(keys).aggregate([]).to_pylist():
        mask = pc.and_(*(pc.equal(table[key], row[key]) for key in keys))
        parts.append(table.filter(mask))
    return parts


@pytest.fixture(scope="module")
def histories() -> dict[str, History]:
    draw = random.Random(SEED)
    found = [parse(case) for case in CASES.values()]
    found += random_histories()[:: 2 * len(random_histories()) // HISTORIES]
    found += [damaged_history(draw) for _ in range(HISTORIES)]
    return {f"t{index}": history for index, history in enumerate(found)}


@pytest.mark.slow
def test_the_pass_by_offset_and_the_oracle_agree(spark, tmp_path, histories):
    from ackproof_spark.checks.comparison import compare

    write_run(tmp_path, histories)
    lay_out(tmp_path, rows=3)
    aligned = compare(spark, tmp_path, sizing=TINY)
    by_pass = anomalies_of(tmp_path)
    # Without the pass, in the driver, and with the plans for many rows.
    for sizing in (NEVER, DRIVER, replace(TINY, few=0)) if ASKED else ():
        assert compare(spark, tmp_path, sizing=sizing) == aligned, sizing
        assert by_pass == anomalies_of(tmp_path), sizing
    found: dict[str, list[str]] = {topic: [] for topic in histories}
    for row in by_pass:
        found[row["topic"]].append(show(row, found=False))
    for topic, history in histories.items():
        assert sorted(found[topic]) == anomalies(history), f"seed {SEED}, {topic}: {history}"
    seen = Counter(row["anomaly"] for row in by_pass)
    assert {kind: aligned.counts[kind] for kind in OF_LOG} == {kind: seen[kind] for kind in OF_LOG}
    assert all(seen[kind] > HISTORIES / 4 for kind in OF_LOG), seen
