"""The state of each partition in Spark's state store. Importing this module imports Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from ackproof_spark.tables import columns
from ackproof_spark.watch.blocks import unpacked
from ackproof_spark.watch.looks import LOOK
from ackproof_spark.watch.partition import Kind, Look, Partition

#: Rows of findings, and one row for each partition with `partition.row` in JSON as its `send`.
OUTPUT = (
    "topic string, partition int, finding string, record_offset bigint, records bigint, "
    "sequence bigint, other_offset bigint, send string, found_at bigint"
)
STATE = "state"


class Processor(StatefulProcessor):  # type: ignore[misc]  # pyspark is not typed for mypy here
    """Applies the rows of a micro-batch to the partitions that they belong to."""

    def __init__(self, patience: int) -> None:
        self._patience = patience

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState("partition", "text string, data binary")

    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Any]:
        blocks = [block for frame in rows for block in frame["block"]]
        kind, events, text = unpacked(blocks)
        stored = self._state.get()
        partition = Partition.unpacked(*stored) if stored else Partition()
        look = None
        for row in events[kind == Kind.LOOK].tolist():
            look = Look(**{**dict(zip(LOOK, row, strict=False)), "recreated": bool(row[6])})
        found = partition.take(
            look,
            events[kind == Kind.ACK],
            text[kind == Kind.ACK],
            events[kind == Kind.RECORD],
            patience=self._patience,
        )
        self._state.update(partition.packed())
        state: dict[str, object] = {
            "finding": STATE,
            "send": json.dumps(partition.row()),
            "found_at": partition.at,
        }
        for name in ("record_offset", "records", "sequence", "other_offset"):
            state[name] = 0
        place = {"topic": key[0], "partition": key[1]}
        rows_out = [{**place, **row} for row in (state, *found)]
        yield pa.Table.from_pylist(rows_out, schema=columns(OUTPUT)).to_pandas()

    def close(self) -> None:
        pass
