"""A group's lag is the same number on a run's page, in the warehouse and in the live view."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ackproof.judgement.overview.timelines import timelines
from ackproof_spark import tables
from ackproof_spark.by_time import Grouping
from ackproof_spark.live.partition import EVENTS, Kind, Partition
from ackproof_spark.spark.small_data import small_plans
from ackproof_spark.warehouse.formats import frame
from ackproof_spark.warehouse.timelines import per_second

pytestmark = pytest.mark.spark

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
SECONDS, SENDS_OF_EACH, PARTITIONS = 20, 200, 2
SECOND = 1_000_000


def drawn(chance: Random, *, begins: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    """Return acked sends of topics that begin at these offsets, and what a group read of them.

    It begins late, stops in the middle, and never reads the last records.
    """
    sends, reads = [], []
    for partition, begin in enumerate(begins):
        times = sorted(chance.uniform(0.1, SECONDS - 1.1) for _ in range(SENDS_OF_EACH))
        read = chance.uniform(1, 4)
        for number, sent in enumerate(times):
            acked = sent + 0.001
            row = {"topic": "t", "partition": partition, "offset": begin + number}
            sends.append(
                row
                | {"producer": 0, "sequence": number * PARTITIONS + partition, "outcome": "acked"}
                | {"sent_at": at(sent), "resolved_at": at(acked)}
            )
            read = max(read, acked) + chance.choice([0, 0, 0, 0.1])
            if not 9 < read < 13 and number < SENDS_OF_EACH - 10:
                of_group = {"consumer": 0, "group": "g", "isolation_level": "read_committed"}
                reads.append(row | of_group | {"poll": 1, "number": 0, "read_at": at(read)})
    sends[0]["sent_at"] = START
    return sends, reads


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def of_the_page(sends: list[Any], reads: list[Any]) -> list[int]:
    rows = {"ledger": sends, "reads": reads}

    def ask(grouping: Grouping) -> pa.Table | None:
        schema: pa.Schema = getattr(tables, grouping.table.upper(), None)
        given = rows.get(grouping.table)
        if not given:
            return None
        fields = pa.schema([schema.field(name) for name in grouping.columns])
        return grouping.answer([pa.RecordBatch.from_pylist(given, fields)])

    origin = int(START.timestamp()) * SECOND
    nothing = np.array([], dtype=np.int64)
    found = timelines(ask, origin=origin, seconds=SECONDS, sends=len(sends), lost_at=nothing)
    assert found[0].width == 1
    return found[0].unread["g"]


def of_the_warehouse(spark: Any, sends: list[Any], reads: list[Any]) -> list[int]:
    rows = [
        frame(spark, [{"schema_version": 1, "run_id": "r", **row} for row in of], table)
        for of, table in ((sends, tables.LEDGER), (reads, tables.READS))
    ]
    with small_plans(spark, rows=0):
        return [row["lag"] for row in per_second(*rows).collect()]


def of_the_live_view(sends: list[Any], reads: list[Any]) -> list[int]:
    """Return the sum over partitions, from micro-batches of a second."""
    each = [_of_partition(number, sends, reads) for number in range(PARTITIONS)]
    return [sum(lags) for lags in zip(*each, strict=True)]


def _of_partition(partition: int, sends: list[Any], reads: list[Any]) -> list[int]:
    state, lags = Partition(), []
    events = defaultdict(list)
    for kind, rows, time in (
        (Kind.ACKED, sends, "resolved_at"),
        (Kind.READ, reads, "read_at"),
    ):
        for row in (row for row in rows if row["partition"] == partition):
            moment = (row[time] - START) // timedelta(microseconds=1)
            events[moment // SECOND].append((kind, 0, row["offset"], row["offset"], moment))
    for second in range(SECONDS):
        rows_now = np.array(events[second], dtype=EVENTS)
        state.take(rows_now, lambda _: np.empty(0, EVENTS), now=(second + 1) * SECOND)
        lags.append(state.row()["lag"] or 0)
    return lags


@pytest.mark.parametrize(
    "begins",
    [
        pytest.param((0, 0), id="new"),
        pytest.param((1000, 7), id="there before the run", marks=pytest.mark.slow),
    ],
)
def test_the_lag_is_the_same_everywhere(spark: Any, begins: tuple[int, ...]) -> None:
    sends, reads = drawn(Random(1), begins=begins)
    page = of_the_page(sends, reads)
    last = max(row["resolved_at"] for row in sends) - START
    until = int(last.total_seconds()) + 1
    assert max(page) > 50, "the group falls behind"
    assert page[until - 1] >= 20, "it leaves the last records"
    assert of_the_warehouse(spark, sends, reads) == page[:until]
    assert of_the_live_view(sends, reads)[:until] == page[:until]
