"""Records that consumers read, and did not process once, or that are gone.

`docs/reference/anomalies.md` defines them. A group has to process a partition from the offset of
its first poll on, and one that a fault added from offset 0: a group that begins at the latest
offset skips its first records (KAFKA-12261).

    orders-0 holds sequences 6, 7, 8
    consumer 0   reads 6, 7, 8, commits offset 9, processes 6, dies
    consumer 1   continues from offset 9                        <- 7 and 8: unprocessed

    consumer 0   reads 6, 7, 8, processes 6, dies
    consumer 1   continues from offset 6, processes 6, 7, 8     <- 6: reprocessed

    consumer 0              read 1/6, 1/7, 1/8 at orders-0 offsets 6, 7, 8
    producer 1 sequence 7   unknown
    orders-0 holds, at 6 and 7: 1/6, 1/9; complete up to 9
    producer 1 sequence 8   aborted: orders-0 is read with read_committed
                                                            <- read-then-gone: 1/7, 1/8

    consumer 0              read 1/7 at orders-0 offset 7
    orders-0 holds, at 7 and 8: 1/9, 1/7                <- misplaced-read: 1/7
"""

from __future__ import annotations

import json
from functools import reduce
from operator import and_

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.absent import read_ranges
from ackproof_spark.checks.anomaly_rows import as_anomalies, content_at, records_at, text
from ackproof_spark.checks.check import ClientCheck
from ackproof_spark.checks.resets import replay, resets, skipped
from ackproof_spark.checks.unexpected import identified
from ackproof_spark.reading.run_tables import NAME, PARTITION, PLACE, RunTables, StoredRun
from ackproof_spark.spark.functions import DataFrame, F, Window
from ackproof_spark.spark.small_data import from_rows
from ackproof_spark.tables import Outcome, RecordState, columns

_RECORD = [*NAME, "offset"]


def unprocessed(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each record and group that did not process it."""
    reads, effects = run["reads"], run["effects"]
    begins = _begins(run)
    records = (
        tables.final_log.where(F.col("state") == RecordState.INTACT)
        .select(*_RECORD)
        .join(F.broadcast(begins), PARTITION)
        .where(F.col("offset") >= F.col("begin"))
    )
    missing = records.join(effects.select("group", *_RECORD), ["group", *_RECORD], "left_anti")
    readers = reads.groupBy("group", *_RECORD).agg(
        F.min(F.struct("read_at", "consumer")).alias("first")
    )
    sends = tables.ledger.select(*NAME, "sent_at", "resolved_at")
    by = F.col("first.consumer")
    return as_anomalies(
        missing.join(readers, ["group", *_RECORD], "left").join(sends, NAME, "left"),
        Anomaly.UNPROCESSED,
        tables=tables,
        found=F.when(
            by.isNull(), text("never read by {}{}", F.col("group"), skipped(resets(run)))
        ).otherwise(text("read by consumer {} of {}, and not processed", by, F.col("group"))),
    )


def _begins(run: StoredRun) -> DataFrame:
    """Return the offset from which on each group has to process each partition."""
    reads = run["reads"]
    begins = reads.groupBy("group", *PARTITION).agg(F.min("offset").alias("begin"))
    added = added_partitions(run)
    if not added:
        return begins
    new = from_rows(run.spark, added, columns("topic string, partition int"))
    groups = reads.select("group", "topic").distinct()
    from_0 = groups.join(new, "topic").withColumn("begin", F.lit(0).cast("bigint"))
    return (
        begins.unionByName(from_0).groupBy("group", *PARTITION).agg(F.min("begin").alias("begin"))
    )


def added_partitions(run: StoredRun) -> list[tuple[str, int]]:
    """Return the partitions that verified faults added."""
    windows = run.listed("fault_windows").where("verified").select("facts").collect()
    changes = [json.loads(window["facts"] or "{}") for window in windows]
    return [
        (topic, number)
        for change in changes
        for topic, numbers in change.get("added", {}).items()
        for number in numbers
    ]


def reprocessed(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each repetition: a record processed three times has two.

    After a reset of the group's offsets each record may be processed once more.
    """
    effects = run["effects"]
    again = (
        effects.where(F.col("producer").isNotNull())
        .withColumn("replay", replay(resets(run), "processed_at"))
        .groupBy("group", *_RECORD, "replay")
        .agg(F.count("*").alias("times"))
        .where(F.col("times") > 1)
        .withColumn("surplus", F.explode(F.sequence(F.lit(2), F.col("times").cast("int"))))
    )
    sends = tables.ledger.select(*NAME, "sent_at", "resolved_at")
    return as_anomalies(
        again.join(sends, NAME, "left"),
        Anomaly.REPROCESSED,
        tables=tables,
        found=text(
            "processed by {}, time {} of {}", F.col("group"), F.col("surplus"), F.col("times")
        ),
    )


_PROBE = "the probe"


def changed(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each record that is gone or at another offset than it was read at.

    `found` has the outcome of its send, its first reader, and what is where now.
    """
    astray = tables.keep(_astray(tables, run))
    intact = tables.final_log.where(F.col("state") == RecordState.INTACT).select(*_RECORD)
    now = (
        intact.join(astray.select(*NAME).distinct(), NAME, "left_semi")
        .groupBy(*NAME)
        .agg(F.min("offset").alias("now"))
    )
    found = tables.keep(astray.join(now, NAME, "left"))
    absent = found.where(F.col("now").isNull()).join(
        identified(tables).select(*NAME), NAME, "left_anti"
    )
    gone = tables.keep(_promised(tables, run, absent))
    moved = found.where(F.col("now").isNotNull()).join(_sends(tables), NAME, "left")
    return _rows(tables, gone, Anomaly.READ_THEN_GONE).unionByName(
        _rows(tables, moved, Anomaly.MISPLACED_READ)
    )


def _rows(tables: RunTables, reads: DataFrame, anomaly: Anomaly) -> DataFrame:
    """Return one row for each record of these reads."""
    reader = F.struct("read_at", "reader", "offset")
    first = reads.groupBy(*NAME, "outcome", "sent_at", "now").agg(
        F.min(reader).alias("first"), F.count("*").alias("times")
    )
    records = (
        first.withColumn("offset", F.col("first.offset"))
        .join(records_at(tables, reads.select(*PLACE)), PLACE, "left")
        .join(read_ranges(tables), PARTITION)
    )
    found = text(
        "{}; read by {}{}; {}{}",
        F.coalesce("outcome", F.lit("never sent here")),
        F.col("first.reader"),
        F.when(F.col("times") > 1, text(", and {} times more", F.col("times") - 1)).otherwise(""),
        F.when(F.col("now").isNotNull(), text("at offset {} now; ", F.col("now"))).otherwise(""),
        content_at(F.col("offset")),
    )
    return as_anomalies(
        records.withColumn("resolved_at", F.col("first.read_at")),
        anomaly,
        tables=tables,
        found=found,
    )


def _sends(tables: RunTables) -> DataFrame:
    return tables.ledger.select(*NAME, "outcome", "sent_at")


def _promised(tables: RunTables, run: StoredRun, gone: DataFrame) -> DataFrame:
    """Return the reads whose record must stay, with outcome and time of its send.

    A record of an open transaction, read with read_uncommitted, need not stay.
    """
    transactional = run["transactions"].select("producer").distinct()
    open_ended = (F.col("reader") == _PROBE) & (F.col("outcome") != Outcome.ACKED)
    return (
        gone.join(_sends(tables), NAME, "left")
        .join(transactional.withColumn("transactional", F.lit(True)), "producer", "left")
        .where(~F.coalesce(open_ended & F.col("transactional"), F.lit(False)))
    )


def _astray(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return the reads whose record certainly is not at its offset, without a legal reason."""
    intact = tables.final_log.where(F.col("state") == RecordState.INTACT).select(*_RECORD)
    stands_for = identified(tables)
    damaged = tables.damaged.where(F.col("state") == RecordState.CORRUPT).select(*PLACE)
    unidentified = damaged.join(stands_for.select(*PLACE), PLACE, "left_anti")
    reached = F.col("complete") | (F.col("offset") < F.col("read_to"))
    return (
        _reads(run)
        .join(intact, _RECORD, "left_anti")
        .join(stands_for.select(*_RECORD), _RECORD, "left_anti")
        .join(unidentified, PLACE, "left_anti")
        .join(read_ranges(tables), PARTITION)
        .where(reached & (F.col("offset") >= F.col("begin_offset")))
        .join(_created_anew(run), PARTITION, "left")
        .where(F.col("anew_at").isNull() | (F.col("read_at") >= F.col("anew_at")))
        .select(*NAME, "offset", "read_at", "reader")
    )


def by_consumers(run: StoredRun) -> DataFrame:
    """Return the records of this run that consumers read: `NAME`, offset, `read_at`, `reader`."""
    consumer = text(
        "consumer {} of {} with {}", F.col("consumer"), F.col("group"), F.col("isolation_level")
    )
    member = text("consumer {} of share group {}", F.col("consumer"), F.col("group"))
    columns = [*NAME, "offset", "read_at"]
    return (
        run["reads"]
        .select(*columns, consumer.alias("reader"))
        .unionByName(run["acquisitions"].select(*columns, member.alias("reader")))
        .where(F.col("producer").isNotNull())
    )


def _reads(run: StoredRun) -> DataFrame:
    """Return the records of this run that consumers and the probe read."""
    by_probe = (
        run["probe"]
        .where((F.col("action") == "read") & F.col("producer").isNotNull())
        .select(
            *NAME, "offset", F.col("answered_at").alias("read_at"), F.lit(_PROBE).alias("reader")
        )
    )
    return by_consumers(run).unionByName(by_probe)


def _created_anew(run: StoredRun) -> DataFrame:
    """Return the time of each partition's last creation, `anew_at`, if it was created again.

    A new partition has epoch 0. With ZooKeeper the epoch is the version of its znode, and other
    replicas are assigned in another znode: then only they change, and the epoch may still be 0.
    """
    before = Window.partitionBy(*PARTITION).orderBy("metadata_offset")
    kept = ("partition_epoch", "leader", "leader_epoch", "isr")
    same = [F.lag(name).over(before) == F.col(name) for name in kept]
    assigned = F.lag("replicas").over(before) != F.col("replicas")
    return (
        run["partition_states"]
        .withColumn("moved", F.coalesce(reduce(and_, same, assigned), F.lit(False)))
        .where((F.col("partition_epoch") == 0) & ~F.col("moved"))
        .groupBy(*PARTITION)
        .agg(F.count("*").alias("creations"), F.max("at").alias("anew_at"))
        .where(F.col("creations") > 1)
        .drop("creations")
    )


CHECKS = (
    ClientCheck(anomalies=(Anomaly.UNPROCESSED,), find=unprocessed, tables=("reads",)),
    ClientCheck(
        anomalies=(Anomaly.REPROCESSED,), find=reprocessed, tables=("reads", "acquisitions")
    ),
    ClientCheck(
        anomalies=(Anomaly.READ_THEN_GONE, Anomaly.MISPLACED_READ),
        find=changed,
        tables=("reads", "acquisitions", "probe"),
    ),
)
