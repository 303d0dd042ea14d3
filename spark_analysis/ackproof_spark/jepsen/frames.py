"""The frames that all checks start from: sends, polls, and the log that they imply.

The log of a key has at each offset the values of sends that certainly committed, and of all polls,
whatever the outcome of their transaction, because a consumer must never return a record that does
not exist. An `info` operation certainly committed if an `ok` poll returned one of its values. Other
offsets are left out: they may be transaction markers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property

from ackproof_spark.jepsen.tables import (
    ANOMALIES,
    Action,
    Completion,
    HistoryAnomaly,
)
from ackproof_spark.spark.functions import Column, DataFrame, F, Window

#: The columns that identify a send: values are unique within a key.
SEND = ["history", "key", "value"]


@dataclass(frozen=True, kw_only=True)
class Histories:
    """Micro-operations (`tables.MICRO_OPS`), and the frames derived from them."""

    micro_ops: DataFrame

    @contextmanager
    def cached(self) -> Iterator[None]:
        """Keep the frames that several checks start from in memory."""
        with ExitStack() as caches:
            for frame in (self.micro_ops, self.sends, self.places, self.records):
                caches.callback(frame.persist().unpersist)
            yield

    @cached_property
    def operations(self) -> DataFrame:
        """One row for each operation: history, op, process, type, f, keys."""
        return self.micro_ops.where("number = 0").select(
            "history", "op", "process", "type", "f", "keys"
        )

    @cached_property
    def reads(self) -> DataFrame:
        """Every record that a poll returned."""
        return self.micro_ops.where(F.col("action") == Action.POLL)

    @cached_property
    def read_ok(self) -> DataFrame:
        """Values that an `ok` poll returned: history, key, value."""
        return self.reads.where(F.col("type") == Completion.OK).select(*SEND).distinct()

    @cached_property
    def sends(self) -> DataFrame:
        """Every record sent.

        `was_read`: an `ok` poll returned it. `committed`: its operation certainly had effect: it is
        `ok`, or `info` with a value that was read.
        """
        siblings = Window.partitionBy("history", "op")
        read = self.read_ok.withColumn("read", F.lit(True))
        was_read = F.coalesce("read", F.lit(False))
        proven = (F.col("type") == Completion.INFO) & F.max("was_read").over(siblings)
        return (
            self.micro_ops.where(F.col("action") == Action.SEND)
            .join(read, SEND, "left")
            .withColumn("was_read", was_read)
            .withColumn("committed", (F.col("type") == Completion.OK) | proven)
            .drop("read")
        )

    @cached_property
    def log(self) -> DataFrame:
        """One row for each value at an offset: history, key, offset, value, index, chosen.

        `index` counts the key's offsets from 0, without gaps. Of several values at an offset, the
        least as text is `chosen` for checks that need one value.
        """
        seen = ["history", "key", "offset", "value"]
        by_offset = Window.partitionBy("history", "key").orderBy("offset")
        at_offset = Window.partitionBy("history", "key", "offset")
        return (
            self.sends.where("committed")
            .select(*seen)
            .unionByName(self.reads.select(*seen))
            .where(F.col("offset").isNotNull())
            .distinct()
            .withColumn("index", F.dense_rank().over(by_offset).cast("bigint") - 1)
            .withColumn("chosen", F.col("value") == F.min("value").over(at_offset))
        )

    @cached_property
    def order(self) -> DataFrame:
        """The order of a key's values, one for each index: history, key, index, value."""
        return self.log.where("chosen").select("history", "key", "index", "value")

    @cached_property
    def places(self) -> DataFrame:
        """The offsets of a value: history, key, value, offsets, first, last, at.

        `first` and `last` are indexes; `at` is its last index in `order`, null if it was never
        chosen.
        """
        return self.log.groupBy(*SEND).agg(
            F.sort_array(F.collect_list("offset")).alias("offsets"),
            F.min("index").alias("first"),
            F.max("index").alias("last"),
            F.max(F.when(F.col("chosen"), F.col("index"))).alias("at"),
        )

    @cached_property
    def records(self) -> DataFrame:
        """Every record sent or polled, with its index in the order, `at`, if known."""
        there = self.places.select(*SEND, "at")
        return self.micro_ops.where(F.col("action").isNotNull()).join(there, SEND, "left")


def as_anomalies(
    frame: DataFrame, anomaly: HistoryAnomaly | Column, **columns: Column
) -> DataFrame:
    """Return `frame` with the columns of `tables.ANOMALIES`: `columns`, else its own, else null."""
    from pyspark.sql.pandas.types import from_arrow_type

    kind = F.lit(anomaly) if isinstance(anomaly, HistoryAnomaly) else anomaly
    given = {"anomaly": kind, **columns}

    def column(name: str) -> Column:
        if name in given:
            return given[name]
        return F.col(name) if name in frame.columns else F.lit(None)

    return frame.select(
        *(column(f.name).cast(from_arrow_type(f.type)).alias(f.name) for f in ANOMALIES)
    )


def delta(before: Column, after: Column) -> Column:
    """Return the distance of two indexes; 1, which is correct order, if one is unknown."""
    return F.coalesce(after - before, F.lit(1))


def with_skipped(skips: DataFrame, histories: Histories) -> DataFrame:
    """Return `skips` (in `ANOMALIES`'s columns) with the `delta - 1` values after `index`."""
    between = F.sequence(F.col("index") + 1, F.col("index") + F.col("delta") - 1)
    evidence = [name for name in ANOMALIES.names if name not in ("skipped", "steps")]
    values = F.array_sort(F.collect_list(F.struct("place", "skipped_value")))
    order = histories.order.select(
        "history", "key", F.col("index").alias("place"), F.col("value").alias("skipped_value")
    )
    return as_anomalies(
        skips.withColumn("place", F.explode(between))
        .join(order, ["history", "key", "place"])
        .groupBy(*evidence)
        .agg(values["skipped_value"].alias("skipped")),
        F.col("anomaly"),
        index=F.lit(None),
    )
