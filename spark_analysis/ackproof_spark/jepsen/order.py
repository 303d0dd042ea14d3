"""Records that are not sent or polled in the order of the log (`docs/reference/anomalies.md`).

Within an operation; the log of x is a b c:

    op 0   ok    poll  x: a, c          <- int-poll-skip: past b
    op 1   ok    poll  x: b, b          <- int-nonmonotonic-poll: b again
    op 2   ok    send  x: a, c          <- int-send-skip: another process's b lies between
    op 3   ok    send  x: c, a          <- int-nonmonotonic-send: sent in this order

Between operations of a process; the log of x is a b c d:

    op 0   ok    poll  x: a, b
    op 1   fail  poll  x: c             correct, but aborted: the next poll must begin at c again
    op 2   ok    poll  x: d             <- poll-skip: past c
    op 3   ok    poll  x: c             <- nonmonotonic-poll: before d

Pairs with an unknown offset are not judged.
"""

from __future__ import annotations

from ackproof_spark.jepsen.frames import (
    Histories,
    as_anomalies,
    delta,
    with_skipped,
)
from ackproof_spark.jepsen.tables import (
    Action,
    Completion,
    Function,
    HistoryAnomaly,
)
from ackproof_spark.spark.functions import DataFrame, F, Window


def within_operations(histories: Histories) -> DataFrame:
    """Return one row for each pair of consecutive records; skips have the `index` of the first."""
    sent = F.col("action") == Action.SEND
    in_order = Window.partitionBy("history", "op", "action", "key").orderBy("number")
    pairs = (
        histories.records.withColumns(
            {
                "before": F.lag(F.struct("value", "at")).over(in_order),
                "exempt": ~sent & F.array_contains("keys", F.col("key")),
            }
        )
        .where(F.col("before").isNotNull() & ~F.col("exempt"))
        .withColumn("delta", delta(F.col("before.at"), F.col("at")))
    )
    evidence = {
        "values": F.array("before.value", "value"),
        "ops": F.array("op"),
        "index": F.col("before.at"),
    }
    skips = as_anomalies(
        pairs.where("delta > 1"),
        F.when(sent, F.lit(HistoryAnomaly.INT_SEND_SKIP)).otherwise(
            F.lit(HistoryAnomaly.INT_POLL_SKIP)
        ),
        **evidence,
    )
    back = as_anomalies(
        pairs.where("delta < 1"),
        F.when(sent, F.lit(HistoryAnomaly.INT_NONMONOTONIC_SEND)).otherwise(
            F.lit(HistoryAnomaly.INT_NONMONOTONIC_POLL)
        ),
        **{**evidence, "index": F.lit(None)},
    )
    return with_skipped(skips, histories).unionByName(back)


_USE = ["history", "process", "action", "key"]


def between_operations(histories: Histories) -> DataFrame:
    """Return one row for each operation and key that does not continue the process's order."""
    steps = _steps(histories)
    polled = F.col("action") == Action.POLL
    evidence = {"ops": F.array("before.op", "op"), "number": F.col("first.number")}
    skips = as_anomalies(
        steps.where(polled & (F.col("delta") > 1)),
        HistoryAnomaly.POLL_SKIP,
        **evidence,
        index=F.col("before.last.at"),
    )
    back = as_anomalies(
        steps.where("delta < 1"),
        F.when(polled, F.lit(HistoryAnomaly.NONMONOTONIC_POLL)).otherwise(
            F.lit(HistoryAnomaly.NONMONOTONIC_SEND)
        ),
        **evidence,
        values=F.array("before.last.value", "first.value"),
    )
    return with_skipped(skips, histories).unionByName(back)


def _steps(histories: Histories) -> DataFrame:
    """Return the uses of keys by operations, with the use `before` by the process, and `delta`."""
    polled = F.col("action") == Action.POLL
    ok = F.col("type") == Completion.OK
    record = F.struct("number", "value", "at")
    uses = (
        histories.records.where(polled | (F.col("type") != Completion.FAIL))
        .groupBy(*_USE, "op", "type")
        .agg(F.min(record).alias("first"), F.max(record).alias("last"))
        .withColumns({"continues": ~polled | ok, "forgets": F.lit(False)})
    )
    events = uses.unionByName(_forgotten(histories, uses), allowMissingColumns=True)
    earlier = Window.partitionBy(*_USE).orderBy("op").rowsBetween(Window.unboundedPreceding, -1)
    position = F.when(F.col("continues") | F.col("forgets"), F.struct("forgets", "op", "last"))
    return (
        events.withColumn("before", F.last(position, ignorenulls=True).over(earlier))
        .where(~F.col("forgets") & ~F.col("before.forgets"))
        .withColumn("delta", delta(F.col("before.last.at"), F.col("first.at")))
    )


def _forgotten(histories: Histories, uses: DataFrame) -> DataFrame:
    """Return the keys that a process uses and forgets, with the operation that forgets them."""
    moves = F.col("f").isin(Function.ASSIGN, Function.SUBSCRIBE) & (
        F.col("type") != Completion.FAIL
    )
    resets = histories.operations.where(moves | (F.col("f") == Function.CRASH)).select(
        "history", "process", "op", F.when(moves, F.col("keys")).alias("listed")
    )
    listed = F.coalesce(F.array_contains("listed", F.col("key")), F.lit(False))
    return (
        uses.select(*_USE)
        .distinct()
        .join(resets, ["history", "process"])
        .where(~listed)
        .select(*_USE, "op", F.lit(False).alias("continues"), F.lit(True).alias("forgets"))
    )
