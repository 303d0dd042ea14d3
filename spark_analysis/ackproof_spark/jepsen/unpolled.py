"""Unseen: sent by an `ok` operation, and never returned by an `ok` poll.

op 0   ok    send  x: a at 0, b at 1
op 1   ok    poll  x: a at 0        <- unseen in the end: b, which may be lost or just late

Whether a value is lost can be told only once readers got past it: see `lost_writes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof_spark.jepsen.frames import SEND, Histories, as_anomalies
from ackproof_spark.jepsen.tables import Completion, HistoryAnomaly
from ackproof_spark.spark.functions import F, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(histories: Histories) -> DataFrame:
    """Return one row a key with unseen values at the end of the history."""
    unseen = (
        histories.sends.where((F.col("type") == Completion.OK) & ~F.col("was_read"))
        .groupBy("history", "key")
        .agg(F.sort_array(F.collect_list("value")).alias("values"))
    )
    return as_anomalies(unseen, HistoryAnomaly.UNSEEN)


def changes(histories: Histories) -> DataFrame:
    """Return how many values of a key are unseen, wherever that may change.

    One row an `ok` operation that sends to a key, or is the first to return one of its values:
    history, op, key, unseen (after that operation).
    """
    ok = F.col("type") == Completion.OK
    sent = histories.sends.where(ok).select(*SEND, F.col("op").alias("sent"))
    seen = histories.reads.where(ok).groupBy(*SEND).agg(F.min("op").alias("seen"))
    both = sent.join(seen, SEND, "left")
    no_longer = F.greatest("sent", "seen").alias("op")
    events = both.select("history", "key", F.col("sent").alias("op"), F.lit(1).alias("more"))
    events = events.unionByName(
        both.where(F.col("seen").isNotNull()).select(
            "history", "key", no_longer, F.lit(-1).alias("more")
        )
    )
    so_far = Window.partitionBy("history", "key").orderBy("op")
    return (
        events.groupBy("history", "key", "op")
        .agg(F.sum("more").alias("more"))
        .select("history", "op", "key", F.sum("more").over(so_far).alias("unseen"))
    )
