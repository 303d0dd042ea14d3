"""Sends, reads and transactions of a run, grouped by time for its plots.

Arrow in this process, or Spark's tasks, evaluate a `Grouping` batch by batch; the partial results
are grouped again. A cell is an interval of time of fixed width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof_spark import tables
from ackproof_spark.tables import PROBE_PRODUCERS, Outcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Latency buckets are 2 % wide, from 1 microsecond to about three hours.
LOG_RATIO = float(np.log(1.02))
BUCKETS = 1170

#: The value of `kind` in `sends` for rows of latencies; the others are outcomes.
LATENCY = "latency"


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """An aggregation of a table: `derive` turns a batch into rows of `keys` and `values`.

    `values` are integer columns, each with its aggregation: sum, min or max.
    """

    table: str
    columns: tuple[str, ...]
    derive: Callable[[pa.RecordBatch], pa.Table]
    keys: tuple[str, ...]
    values: Mapping[str, str]

    def answer(self, batches: Iterable[pa.RecordBatch]) -> pa.Table | None:
        """Group all rows of these batches; None if there is no batch."""
        return self.combined(self._partial(batch) for batch in batches)

    def answer_in_spark(self, spark: SparkSession, run_dir: Path | str) -> pa.Table | None:
        """Group the whole table in Spark's tasks; this process combines the partial results."""
        from pyspark.sql.pandas.types import from_arrow_schema

        from ackproof_spark.reading.run_tables import read_table

        frame = read_table(spark, run_dir, self.table, getattr(tables, self.table.upper()))
        partial = self._partial
        schema = partial(pa.RecordBatch.from_pylist([], _schema(self.table, self.columns))).schema

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield from partial(batch).to_batches()

        rows = frame.select(*self.columns).mapInArrow(work, from_arrow_schema(schema)).toArrow()
        return self.combined([rows.cast(schema)])

    def combined(self, parts: Iterable[pa.Table]) -> pa.Table | None:
        partial = list(parts)
        return self._grouped(pa.concat_tables(partial)) if partial else None

    def _partial(self, batch: pa.RecordBatch) -> pa.Table:
        return self._grouped(self.derive(batch))

    def _grouped(self, rows: pa.Table) -> pa.Table:
        grouped = rows.group_by(list(self.keys), use_threads=False).aggregate(
            list(self.values.items())
        )
        names = [*self.keys, *(f"{value}_{how}" for value, how in self.values.items())]
        return grouped.select(names).rename_columns([*self.keys, *self.values])


def _schema(table: str, columns: Iterable[str]) -> pa.Schema:
    schema: pa.Schema = getattr(tables, table.upper())
    return pa.schema([schema.field(name) for name in columns])


def _micros(times: pa.Array) -> pa.Array:
    return times.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())


def _ones(batch: pa.RecordBatch) -> pa.Array:
    return pa.array(np.ones(batch.num_rows, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Cells of `width` microseconds from `origin` (microseconds since 1970)."""

    origin: int
    width: int

    def sends(self) -> Grouping:
        """Count sends by outcome, and acked sends by bucket of their latency, at the send's time.

        `least` and `most` are latencies in microseconds. A send without a time has no cell.
        """
        return Grouping(
            table="ledger",
            columns=("producer", "outcome", "sent_at", "resolved_at"),
            derive=self._derive_sends,
            keys=("kind", "cell", "bucket"),
            values={"count": "sum", "least": "min", "most": "max"},
        )

    def acked_ends(self) -> Grouping:
        """Return lowest acked offset and highest plus 1 of each partition, in the ack's cell."""
        return Grouping(
            table="ledger",
            columns=("topic", "partition", "outcome", "offset", "resolved_at"),
            derive=self._derive_acked_ends,
            keys=("cell", "topic", "partition"),
            values={"end": "max", "begin": "min"},
        )

    def read_ends(self) -> Grouping:
        """Return the highest offset read plus 1 of each group and partition, in its cell."""
        return Grouping(
            table="reads",
            columns=("group", "topic", "partition", "offset", "read_at"),
            derive=lambda batch: self._ends(batch, "read_at", "group"),
            keys=("group", "cell", "topic", "partition"),
            values={"end": "max"},
        )

    def transactions(self) -> Grouping:
        """Count transactions by outcome; an unfinished transaction has no cell."""
        return Grouping(
            table="transactions",
            columns=("outcome", "ended_at"),
            derive=lambda batch: pa.table(
                {
                    "outcome": batch["outcome"].cast(pa.string()),
                    "cell": self._cells(_micros(batch["ended_at"])),
                    "count": _ones(batch),
                }
            ),
            keys=("outcome", "cell"),
            values={"count": "sum"},
        )

    def _cells(self, micros: pa.Array) -> pa.Array:
        """Return the cell of each time; times before the origin are in the first cell."""
        cells = pc.divide(pc.subtract(micros, self.origin), self.width)
        return pc.max_element_wise(cells, 0, skip_nulls=False)

    def _derive_sends(self, batch: pa.RecordBatch) -> pa.Table:
        batch = batch.filter(pc.less(batch["producer"], PROBE_PRODUCERS))
        sent, resolved = _micros(batch["sent_at"]), _micros(batch["resolved_at"])
        outcome, nothing = batch["outcome"].cast(pa.string()), pa.nulls(batch.num_rows, pa.int64())
        counted = pa.table(
            {
                "kind": outcome,
                "cell": self._cells(pc.coalesce(resolved, sent)),
                "bucket": nothing,
                "count": _ones(batch),
                "least": nothing,
                "most": nothing,
            }
        )
        took = pc.subtract(resolved, sent)
        measured = pc.and_(pc.equal(outcome, str(Outcome.ACKED)), pc.is_valid(took))
        took, sent = took.filter(measured), sent.filter(measured)
        bucket = np.log(np.maximum(took.to_numpy(zero_copy_only=False), 1)) / LOG_RATIO
        latencies = pa.table(
            {
                "kind": pa.array([LATENCY] * len(took), pa.string()),
                "cell": self._cells(sent),
                "bucket": np.clip(bucket.astype(np.int64), 0, BUCKETS - 1),
                "count": np.ones(len(took), dtype=np.int64),
                "least": took,
                "most": took,
            }
        )
        return pa.concat_tables([counted, latencies])

    def _derive_acked_ends(self, batch: pa.RecordBatch) -> pa.Table:
        known = pc.and_(pc.is_valid(batch["offset"]), pc.is_valid(batch["resolved_at"]))
        acked = pc.equal(batch["outcome"].cast(pa.string()), str(Outcome.ACKED))
        batch = batch.filter(pc.and_(known, acked))
        return self._ends(batch, "resolved_at").append_column("begin", batch["offset"])

    def _ends(self, batch: pa.RecordBatch, time: str, *more: str) -> pa.Table:
        return pa.table(
            {
                **{name: batch[name].cast(pa.string()) for name in ("topic", *more)},
                "cell": self._cells(_micros(batch[time])),
                "partition": batch["partition"],
                "end": pc.add(batch["offset"], 1),
            }
        )
