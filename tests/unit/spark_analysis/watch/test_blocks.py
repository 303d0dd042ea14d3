"""Blocks of events give what was packed into them, for each partition in its order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ackproof_spark.tables import columns
from ackproof_spark.watch.blocks import packed, unpacked
from ackproof_spark.watch.partition import COLUMNS

NAMES = ("kind", *COLUMNS)
#: As Spark gives them: all columns may be null, of which it has told nothing else.
EVENTS = columns(
    f"topic string?, partition int?, {', '.join(f'{name} bigint?' for name in NAMES)}, text string?"
)


def batch(*places: tuple[str, int]) -> pa.RecordBatch:
    """Return one event for each place; its numbers are those of its row."""
    rows = [
        {"topic": topic, "partition": partition, "text": f"id {number}"}
        | {name: 100 * number + column for column, name in enumerate(NAMES)}
        for number, (topic, partition) in enumerate(places)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=EVENTS)


def events(blocks: Sequence[bytes]) -> list[tuple[Any, ...]]:
    rows = zip(*unpacked(blocks), strict=True)
    return [(kind, *row.tolist()[: len(COLUMNS)], text) for kind, row, text in rows]


def test_events_of_many_partitions_come_out_of_their_blocks_in_order() -> None:
    orders, others, last = ("orders", 0), ("others", 1), ("orders", 2**31 - 1)
    batches = [batch(orders, others, others, orders, last), batch(), batch(others, others)]
    blocks: dict[tuple[str, int], list[bytes]] = {}
    for each in packed(batches):
        for row in each.to_pylist():
            blocks.setdefault((row["topic"], row["partition"]), []).append(row["block"])
    assert {place: events(some) for place, some in blocks.items()} == {
        place: [
            (*range(100 * number, 100 * number + len(NAMES)), f"id {number}") for number in each
        ]
        for place, each in (
            (orders, (0, 3)),
            (others, (1, 2, 0, 1)),
            (last, (4,)),
        )
    }


def test_events_of_one_partition_are_one_block() -> None:
    [blocks] = packed([batch(*[("orders", 7)] * 1000)])
    assert blocks.num_rows == 1
