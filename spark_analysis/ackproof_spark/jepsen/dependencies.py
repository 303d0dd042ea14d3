"""Which operation comes before which: the edges of the dependency graph.

The log of x is a b c; op 0 sends a, op 1 sends b, op 2 sends c, op 3 polls a:

    ww   op 0 -> op 1 -> op 2   who sent a value, to who sent the next one of the key's order
    wr   op 0 -> op 3           who sent a value, to whoever polled it
    rw   op 3 -> op 1           who polled up to a value, to who sent the next one
    process                     from an `ok` operation of a process to its next `ok` one

Operations count for ww, wr and rw whatever became of them: what was sent by a failed one is there
if it can be read. No operation depends on itself.

An rw edge starts at the highest value that an operation polled of a key; there is none if the
place of one of its polls is unknown, nor to an operation of which it did poll something of that
key: a poll may end in the midst of a transaction.

Real-time edges need the beginning of operations, which a history of completions does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof_spark.jepsen.frames import SEND, Histories
from ackproof_spark.jepsen.tables import TRANSACTIONS, Completion
from ackproof_spark.spark.functions import F, Window, union

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def edges(histories: Histories, *, ww_deps: bool = True) -> DataFrame:
    """Return all edges; those inferred from the order of the log (ww, rw) only if `ww_deps`.

    A row is an edge: history, relation, source, target, key, values. Operation `source` comes
    before `target`; `values` are the values concerned, in log order.
    """
    frames = [_wr(histories), _process(histories)]
    if ww_deps:
        frames += [_ww(histories), _rw(histories)]
    return union(frames)


def _edges(
    frame: DataFrame, relation: str, *, source: str, target: str, key: Column, values: Column
) -> DataFrame:
    return frame.where(F.col(source) != F.col(target)).select(
        "history",
        F.lit(relation).alias("relation"),
        F.col(source).alias("source"),
        F.col(target).alias("target"),
        key.alias("key"),
        values.alias("values"),
    )


def _writers(histories: Histories) -> DataFrame:
    return histories.sends.select(*SEND, F.col("op").alias("writer"))


def _ww(histories: Histories) -> DataFrame:
    in_order = Window.partitionBy("history", "key").orderBy("index")
    # A value that was chosen twice stands where it does last.
    next_ones = (
        histories.order.join(_writers(histories), SEND, "left")
        .withColumns(
            {
                "earlier": F.lag("writer").over(in_order),
                "earlier_value": F.lag("value").over(in_order),
            }
        )
        .join(histories.places.select(*SEND, "at"), SEND)
        .where(F.col("index") == F.col("at"))
    )
    return _edges(
        next_ones,
        "ww",
        source="earlier",
        target="writer",
        key=F.col("key"),
        values=F.array("earlier_value", "value"),
    )


def _wr(histories: Histories) -> DataFrame:
    reads = histories.reads.select(*SEND, "op").distinct().join(_writers(histories), SEND)
    return _edges(
        reads, "wr", source="writer", target="op", key=F.col("key"), values=F.array("value")
    )


def _rw(histories: Histories) -> DataFrame:
    reads = histories.reads.select(*SEND, "op").distinct()
    highest = (
        reads.join(histories.places.select(*SEND, "at"), SEND, "left")
        .groupBy("history", "key", "op")
        .agg(
            F.max(F.struct("at", "value")).alias("highest"),
            F.every(F.col("at").isNotNull()).alias("all_known"),
        )
        .where("all_known")
    )
    following = histories.order.select(
        "history",
        "key",
        (F.col("index") - 1).alias("at"),
        F.col("value").alias("next_value"),
    ).join(
        _writers(histories).withColumnRenamed("value", "next_value"),
        ["history", "key", "next_value"],
    )
    observed = reads.join(_writers(histories), SEND).select("history", "key", "op", "writer")
    missed = (
        highest.withColumn("at", F.col("highest.at"))
        .join(following, ["history", "key", "at"])
        .join(observed, ["history", "key", "op", "writer"], "left_anti")
    )
    return _edges(
        missed,
        "rw",
        source="op",
        target="writer",
        key=F.col("key"),
        values=F.array("highest.value", "next_value"),
    )


def _process(histories: Histories) -> DataFrame:
    done = F.col("f").isin(*TRANSACTIONS) & (F.col("type") == Completion.OK)
    in_order = Window.partitionBy("history", "process").orderBy("op")
    pairs = histories.operations.where(done).withColumn("earlier", F.lag("op").over(in_order))
    nothing = F.array().cast("array<string>")
    return _edges(
        pairs,
        "process",
        source="earlier",
        target="op",
        key=F.lit(None).cast("string"),
        values=nothing,
    )
