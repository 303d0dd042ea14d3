"""Within one operation: its records of a key do not follow each other in the log.

The log of x, from all that is known, is a b c:

    op 0   ok    poll  x: a, c          <- int-poll-skip: past b
    op 1   ok    poll  x: b, b          <- int-nonmonotonic-poll: b again
    op 2   ok    send  x: a, c          <- int-send-skip: another's b lies between
    op 3   ok    send  x: c, a          <- int-nonmonotonic-send: sent in this order

Of two consecutive records of a key that an operation polls (or sends), let delta be the distance
of their places in the log. Above 1 it is a skip, below 1 nonmonotonic. If a place is unknown,
nothing is said. Polls of a key that was rebalanced during the operation are exempt. Operations
count whatever became of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof_spark.jepsen.frames import (
    Histories,
    as_anomalies,
    delta,
    with_skipped,
)
from ackproof_spark.jepsen.tables import Action, HistoryAnomaly
from ackproof_spark.spark.functions import F, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(histories: Histories) -> DataFrame:
    """Return one row a pair of consecutive records; `index` of skips is the first one's."""
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
