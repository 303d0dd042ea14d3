"""The aligned pass leaves what the checks need: aligned, general and the oracle say the same.

Histories are random, in row groups and slices of a few rows, so that borders are everywhere.
`ACKPROOF_HISTORIES` (`ci/histories`) takes more of them than the usual run.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ackproof_spark import tables
from ackproof_spark.anomaly import OF_CLIENTS
from ackproof_spark.matching.row_groups import Sizing
from ackproof_spark.tables import PROBE_PRODUCERS, Outcome, RecordState
from golden.oracle import anomalies
from golden.test_anomalies import CASES
from golden.test_oracle import _random_histories
from spark_histories import (
    OUTCOMES,
    End,
    History,
    Record,
    Send,
    anomalies_of,
    parse,
    show,
    write_run,
)

pytestmark = pytest.mark.spark

SEED = 20260102
ASKED = os.environ.get("ACKPROOF_HISTORIES")
HISTORIES = min(150, int(ASKED or "20"))
TINY = Sizing(from_rows=0, rows_a_slice=24, placed=0.0)
NEVER = Sizing(placed=2.0)  # no run has so large a share of sends with an offset
DRIVER = Sizing(placed=0.0)


def lay_out(run_dir: Path, *, rows: int) -> None:
    """Lay the tables of `write_run` as a run does: by producer, and by partition and offset."""
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
        pq.write_table(schema.empty_table(), place)  # a table without rows is one, too


def _parts(table: pa.Table, keys: list[str]) -> list[pa.Table]:
    parts = []
    for row in table.group_by(keys).aggregate([]).to_pylist():
        mask = pc.and_(*(pc.equal(table[key], row[key]) for key in keys))
        parts.append(table.filter(mask))
    return parts


def damaged_history(draw: random.Random) -> History:  # noqa: PLR0912  one branch a damage
    """A faultless history of some dozens of sends, and then a few things done to it."""
    partitions, producers = draw.randint(1, 3), draw.randint(1, 3)
    log: dict[int, list[tuple[int, int] | None]] = {p: [] for p in range(partitions)}
    sends: dict[tuple[int, int], Send] = {}
    behind = [0] * producers
    for _ in range(draw.randint(10, 90)):
        producer = draw.randrange(producers)
        sequence, behind[producer] = behind[producer], behind[producer] + 1
        partition = sequence % partitions
        if draw.random() < 0.05:
            log[partition].append(None)  # a marker: no record
        offset = len(log[partition])
        log[partition].append((producer, sequence))
        outcome = draw.choices(OUTCOMES, [0.94, 0.02, 0.03, 0.01])[0]
        placed = outcome is Outcome.ACKED and draw.random() > 0.02
        sends[producer, sequence] = Send(
            producer=producer,
            sequence=sequence,
            partition=partition,
            outcome=outcome,
            offset=offset if placed else None,
            sent=sequence,
            resolved=sequence + 0.5,
        )
    states: dict[tuple[int, int], RecordState] = {}
    for _ in range(draw.randint(0, 6)):
        partition = draw.randrange(partitions)
        stands = log[partition]
        if not stands:
            continue
        one, other = (draw.randrange(len(stands)) for _ in range(2))
        match draw.randrange(8):
            case 0:
                stands[one] = None
            case 1:
                stands[one], stands[other] = stands[other], stands[one]
            case 2:
                stands[one] = stands[other]
            case 3:
                stands.append(stands[one])
            case 4:
                stands[one] = (draw.randrange(producers + 1), draw.choice([one, 10**6 + other]))
            case 5:
                states[partition, one] = draw.choice([RecordState.CORRUPT, RecordState.FOREIGN])
            case 6:
                del stands[one:]
            case 7:
                name = stands[one]
                if name is not None and name in sends and sends[name].offset is not None:
                    sends[name] = _acked_at(sends[name], draw.choice([other, len(stands) + 3]))
    records = [
        Record(
            partition=partition,
            offset=offset,
            state=states.get((partition, offset), RecordState.INTACT),
            producer=name[0],
            sequence=name[1],
        )
        for partition, stands in log.items()
        for offset, name in enumerate(stands)
        if name is not None
    ]
    ends = [
        End(
            partition=partition,
            begin=0,
            end=len(stands),
            reason=draw.choice([None, None, "not all was read"]),
        )
        for partition, stands in log.items()
    ]
    history = History(sends=list(sends.values()), log=records, ends=ends)
    return history if draw.random() < 0.5 else _with_probe(history, producers, draw)


def _with_probe(history: History, producers: int, draw: random.Random) -> History:
    """Give the last producers the numbers of the probe's; one that never sent gets any number."""
    first = draw.randint(0, producers - 1)
    numbers = [*range(first), *range(PROBE_PRODUCERS, PROBE_PRODUCERS + producers - first)]
    numbers.append(draw.choice([7, PROBE_PRODUCERS + 7]))

    def named(one: Any) -> Any:
        values = {name: getattr(one, name) for name in type(one).__slots__}
        return type(one)(**{**values, "producer": numbers[one.producer]})

    return replace(
        history, sends=list(map(named, history.sends)), log=list(map(named, history.log))
    )


def _acked_at(send: Send, offset: int) -> Send:
    values = {name: getattr(send, name) for name in Send.__slots__}
    return Send(**{**values, "offset": offset})


@pytest.fixture(scope="module")
def histories() -> dict[str, History]:
    draw = random.Random(SEED)
    found = [parse(case) for case in CASES.values()]
    found += _random_histories()[:: 800 // HISTORIES]
    found += [damaged_history(draw) for _ in range(HISTORIES)]
    return {f"t{index}": history for index, history in enumerate(found)}


def test_aligned_general_and_oracle_agree(spark, tmp_path, histories):
    from ackproof_spark.checks.comparison import CHECKS, compare

    write_run(tmp_path, histories)
    lay_out(tmp_path, rows=3)
    aligned = compare(spark, tmp_path, sizing=TINY)
    by_pass = anomalies_of(tmp_path)
    # Without the pass; in the driver; and, with more histories, as if it left many rows.
    for sizing in (NEVER, DRIVER, replace(TINY, few=0))[: 3 if ASKED else 2]:
        assert compare(spark, tmp_path, sizing=sizing) == aligned, sizing
        assert by_pass == anomalies_of(tmp_path), sizing
    found: dict[str, list[str]] = {topic: [] for topic in histories}
    for row in by_pass:
        found[row["topic"]].append(show(row, found=False))
    for topic, history in histories.items():
        assert sorted(found[topic]) == anomalies(history), f"seed {SEED}, {topic}: {history}"
    seen = Counter(row["anomaly"] for row in by_pass)
    assert all(seen[kind] > HISTORIES / 4 for kind in CHECKS if kind not in OF_CLIENTS), seen
