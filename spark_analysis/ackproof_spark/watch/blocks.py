"""The events of a partition in a micro-batch as a few blocks of Arrow columns.

Spark gives a state's rows to Python one by one. So what it shuffles, sorts and gives has thousands
of events in each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ackproof_spark.tables import columns
from ackproof_spark.watch.partition import COLUMNS, Rows, rows_of

BLOCKS = columns("topic string, partition int").append(
    pa.field("block", pa.binary(), nullable=False)
)

_EVENTS = columns(f"kind bigint, {', '.join(f'{name} bigint' for name in COLUMNS)}, text string")


def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield blocks of events, which are rows of `events.events`."""
    for events in batches:
        if not events.num_rows:
            continue
        topics = events["topic"].dictionary_encode().indices.to_numpy()
        place = topics.astype(np.int64) << 32 | events["partition"].to_numpy()
        order = np.argsort(place, kind="stable")
        batch = events if (place == place[0]).all() else events.take(pa.array(order))
        place = place[order]
        begins = np.append(0, np.flatnonzero(np.diff(place)) + 1).tolist()
        numbers = batch.select(_EVENTS.names).cast(_EVENTS)
        blocks = [
            numbers.slice(begin, end - begin).serialize().to_pybytes()
            for begin, end in zip(begins, [*begins[1:], batch.num_rows], strict=True)
        ]
        at = [batch[name].take(pa.array(begins)) for name in ("topic", "partition")]
        yield pa.record_batch([*at, pa.array(blocks, pa.binary())], schema=BLOCKS)


def unpacked(blocks: Sequence[bytes]) -> tuple[Any, Rows, Any]:
    """Return kinds, rows and texts of the events in blocks."""
    events = pa.Table.from_batches(
        [pa.ipc.read_record_batch(pa.py_buffer(block), _EVENTS) for block in blocks]
    )
    kind, *numbers, text = (column.to_numpy() for column in events.itercolumns())
    return kind, rows_of(numbers), text
