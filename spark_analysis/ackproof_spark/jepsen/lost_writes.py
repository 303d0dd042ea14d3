"""Lost writes: readers got past a committed record, and none returned it.

    op 0   ok    send  x: a at 0
    op 1   ok    send  x: b at 1, y: c at 0
    op 2   ok    poll  x: d at 2, y: c at 0     <- lost-write: a and b; torn-transaction: op 1

`lost-write`: for a key, let the bound be the highest index that an `ok` poll got to, counting
each value read where it first stands (one of unknown offset tells nothing). A value that last
stands at or before the bound must have been read. It is lost if no `ok` poll returned it and its
operation is known to have committed: `ok`, or `info` with a value that was read.

`torn-transaction`: a lost write one of whose siblings, sent by the same operation, was read: the
transaction is visible in part. Judged only where `lost-write` is: readers passed its place.

What nobody got past is `unseen`, not lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof_spark.jepsen.frames import SEND, Histories, as_anomalies
from ackproof_spark.jepsen.tables import HistoryAnomaly
from ackproof_spark.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(histories: Histories) -> DataFrame:
    """Return one row a lost write, and one more for each that tears a transaction."""
    lost = _lost(histories)
    visible = (
        histories.sends.where("was_read")
        .groupBy("history", "op")
        .agg(F.min(F.struct("number", "key", "value")).alias("visible"))
    )
    torn = lost.join(visible, ["history", "op"])
    return as_anomalies(
        lost,
        HistoryAnomaly.LOST_WRITE,
        values=F.array("value"),
        ops=F.array("op"),
        index=F.col("first"),
    ).unionByName(
        as_anomalies(
            torn,
            HistoryAnomaly.TORN_TRANSACTION,
            values=F.array("value", "visible.value"),
            ops=F.array("op"),
            other_key=F.col("visible.key"),
        )
    )


def _lost(histories: Histories) -> DataFrame:
    bounds = (
        histories.read_ok.join(histories.places, SEND)
        .groupBy("history", "key")
        .agg(F.max("first").alias("max_read_index"))
    )
    return (
        histories.sends.where("committed and not was_read")
        .join(histories.places.select(*SEND, "first", "last"), SEND)
        .join(bounds, ["history", "key"])
        .where(F.col("last") <= F.col("max_read_index"))
    )
