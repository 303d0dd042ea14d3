"""Anomalies of single records: their offsets, lost and unseen writes, forbidden reads.

`docs/reference/anomalies.md` defines them.

    op 0   ok    send  x: a at 0
    op 1   ok    send  x: b at 0        <- inconsistent-offsets: a and b at offset 0
    op 2   ok    poll  x: b at 3        <- duplicate: b at offsets 0 and 3

    op 0   ok    send  x: a at 0
    op 1   ok    send  x: b at 1, y: c at 0
    op 2   ok    poll  x: d at 2, y: c at 0     <- lost-write: a and b; torn-transaction: op 1

    op 0   ok    send  x: a at 0, b at 1
    op 1   ok    poll  x: a at 0        <- unseen in the end: b, which may be lost or late

    op 0   fail  send  x: a
    op 1   ok    txn   x: sends b at 1, polls a at 0 and b at 1, c at 2
                       <- G1a: a; precommitted-read: b; phantom: c, which no operation sent
"""

from __future__ import annotations

from ackproof_spark.jepsen.frames import SEND, Histories, as_anomalies
from ackproof_spark.jepsen.tables import Completion, HistoryAnomaly
from ackproof_spark.spark.functions import DataFrame, F, Window


def misplaced(histories: Histories) -> DataFrame:
    """Return one row for each offset with several values, and each value with several offsets."""
    conflicts = (
        histories.log.groupBy("history", "key", "offset", "index")
        .agg(F.sort_array(F.collect_list("value")).alias("values"))
        .where(F.size("values") > 1)
    )
    duplicates = histories.places.where(F.size("offsets") > 1)
    return as_anomalies(
        conflicts, HistoryAnomaly.INCONSISTENT_OFFSETS, offsets=F.array("offset")
    ).unionByName(as_anomalies(duplicates, HistoryAnomaly.DUPLICATE, values=F.array("value")))


def lost_writes(histories: Histories) -> DataFrame:
    """Return one row for each lost write, and one more if it tears a transaction."""
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


def unseen(histories: Histories) -> DataFrame:
    """Return one row for each key with unseen values at the end of the history."""
    values = (
        histories.sends.where((F.col("type") == Completion.OK) & ~F.col("was_read"))
        .groupBy("history", "key")
        .agg(F.sort_array(F.collect_list("value")).alias("values"))
    )
    return as_anomalies(values, HistoryAnomaly.UNSEEN)


def changes(histories: Histories) -> DataFrame:
    """Return the number of unseen values of a key after each operation that may change it.

    These are `ok` operations that send to a key or are the first to return one of its values.
    Columns: history, op, key, unseen.
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


def forbidden_reads(histories: Histories) -> DataFrame:
    """Return one row for each operation and forbidden value that it polled."""
    return _aborted(histories).unionByName(_own(histories)).unionByName(_phantoms(histories))


def _aborted(histories: Histories) -> DataFrame:
    aborted = histories.sends.where(F.col("type") == Completion.FAIL)
    reads = histories.reads.where(F.col("type") == Completion.OK)
    found = (
        reads.join(aborted.select(*SEND, F.col("op").alias("writer")), SEND)
        .groupBy(*SEND, "writer", "op")
        .agg(F.min("number").alias("number"))
    )
    return as_anomalies(
        found, HistoryAnomaly.G1A, values=F.array("value"), ops=F.array("writer", "op")
    )


def _own(histories: Histories) -> DataFrame:
    found = (
        histories.reads.join(histories.sends.select(*SEND, "op"), [*SEND, "op"])
        .groupBy(*SEND, "op")
        .agg(F.min("number").alias("number"))
    )
    return as_anomalies(
        found, HistoryAnomaly.PRECOMMITTED_READ, values=F.array("value"), ops=F.array("op")
    )


def _phantoms(histories: Histories) -> DataFrame:
    found = (
        histories.reads.join(histories.sends.select(*SEND), SEND, "left_anti")
        .groupBy(*SEND, "op")
        .agg(F.min(F.struct("number", "offset")).alias("first"))
        .withColumn("number", F.col("first.number"))
    )
    offset = F.col("first.offset")
    return as_anomalies(
        found,
        HistoryAnomaly.PHANTOM,
        values=F.array("value"),
        ops=F.array("op"),
        offsets=F.when(offset.isNotNull(), F.array(offset)),
    )
