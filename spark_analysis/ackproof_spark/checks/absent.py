"""Acked sends without an intact record: `lost`, or `unseen` if the log was not read far enough.

`docs/reference/anomalies.md` defines both. Names count, not offsets: markers and control records
leave gaps in offsets, and truncated offsets are often written again.

    producer 1 sequence 6   acked at orders-0 offset 6
    producer 1 sequence 7   acked at orders-0 offset 7      <- lost: offset 7 holds sequence 9
    producer 1 sequence 8   failed                          not lost: never acked
    producer 1 sequence 9   acked at orders-0 offset 7
    orders-0 holds, at 6 and 7: sequence 6, sequence 9; complete up to 8

A send whose record is in another partition is lost, and the record is a `phantom`.

    producer 1 sequence 6   acked at orders-0 offset 6      lost: reading got past offset 6
    producer 1 sequence 7   acked at orders-0 offset 7      in the log
    producer 1 sequence 8   acked at orders-0 offset 8      <- unseen: reading ended at 8
    producer 1 sequence 9   acked, no offset known          <- unseen
    orders-0 holds, at 7: sequence 7; incomplete: read up to 8 of 12

Also unseen: an absent send without an acked offset, if retention moved the begin of the log; and a
send of an application whose record cannot be identified (`tables.UNDECIDABLE`).

Removed: Kafka deletes records on purpose, too. Sends that retention or compaction may have removed
are neither lost nor unseen:

    orders is compacted; of key 3 sequences 3, 13 and 23 were acked, at offsets 30, 130 and 230
    orders-0 holds, of key 3: sequence 23 at offset 230
    sequences 3 and 13   removed: the log has a later record of their key
    without a record of key 3 after offset 130, sequences 13 and 23 would be lost
"""

from __future__ import annotations

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, content_at, records_at, text
from ackproof_spark.checks.check import Check
from ackproof_spark.checks.unexpected import identified
from ackproof_spark.reading.run_tables import NAME, PLACE, RunTables, cached_for_run
from ackproof_spark.spark.functions import DataFrame, F
from ackproof_spark.tables import RecordState


def absent(tables: RunTables) -> DataFrame:
    """Return acked sends without an intact record that are neither `removed` nor corrupt.

    `decidable`: the send is lost, because its partition was read completely or beyond its acked
    offset. For a send without an acked offset, retention must not have moved the partition's begin,
    and no record of its key may be left. `why_not`: why a send of an application is not decidable
    (`tables.UNDECIDABLE`).
    """
    return _explained(tables).where("not removed").drop("removed")


def removed(tables: RunTables) -> DataFrame:
    """Return acked sends that retention or compaction may have removed.

    Retention: the acked offset is before `begin_offset`. Compaction: the log has a later record of
    the same key. Whether the records were lost earlier cannot be known.
    """
    return _explained(tables).where("removed")


@cached_for_run
def _explained(tables: RunTables) -> DataFrame:
    """Return the rows of `absent` and `removed`, with the column `removed`."""
    complete = F.coalesce("complete", F.lit(False))
    no_offset = F.col("acked_offset").isNull()
    passed = F.coalesce(F.col("acked_offset") < F.col("read_to"), F.lit(False))
    sends = with_newest(tables, tables.suspects.where("absent"))
    gone = F.col("acked_offset") < F.coalesce("begin_offset", F.lit(0))
    superseded = F.col("acked_offset") < F.col("newest_of_key")
    if tables.undecidable is None:
        sends = sends.withColumn("why_not", F.lit(None).cast("string"))
    else:
        reasons = tables.undecidable.select(*NAME, F.col("reason").alias("why_not"))
        sends = sends.join(reasons, NAME, "left")
    return (
        sends.join(identified(tables).select(*NAME), NAME, "left_anti")
        .join(read_ranges(tables), ["topic", "partition"], "left")
        .withColumn(
            "removed", F.coalesce(gone, F.lit(False)) | F.coalesce(superseded, F.lit(False))
        )
        .withColumn(
            "decidable",
            F.when(F.col("why_not").isNotNull(), F.lit(False))
            .when(
                no_offset,
                complete & (F.col("begin_offset") == 0) & F.col("newest_of_key").isNull(),
            )
            .otherwise(complete | passed),
        )
    )


def with_newest(tables: RunTables, sends: DataFrame) -> DataFrame:
    """Return the sends with `newest_of_key`: the offset of the last record of their key.

    Null if the topic is not compacted, or the log has no record of the key.
    """
    if not tables.keys:
        return sends.withColumn("newest_of_key", F.lit(None).cast("bigint"))
    key = F.when(F.lit(False), F.lit(None).cast("bigint"))
    for topic, count in tables.keys.items():
        key = key.when(F.col("topic") == topic, F.pmod("sequence", F.lit(count)))
    newest = (
        tables.records.where(F.col("state") == RecordState.INTACT)
        .withColumn("key", key)
        .where(F.col("key").isNotNull())
        .groupBy("topic", "partition", "key")
        .agg(F.max("offset").alias("newest_of_key"))
    )
    return (
        sends.withColumn("key", key).join(newest, ["topic", "partition", "key"], "left").drop("key")
    )


@cached_for_run
def read_ranges(tables: RunTables) -> DataFrame:
    """Return the ends of each partition and `read_to`, the offset up to which it was read."""
    ends = tables.partition_ends.select(
        "topic", "partition", "begin_offset", "end_offset", "complete", "reason"
    )
    return (
        ends.join(tables.last_offsets, ["topic", "partition"], "left")
        .withColumn("read_to", F.coalesce(F.col("last") + 1, "begin_offset"))
        .drop("last")
    )


def lost(tables: RunTables) -> DataFrame:
    """Return one row for each lost send; `found` says what is at its acked offset now."""
    decided = absent(tables).where("decidable").withColumn("offset", F.col("acked_offset"))
    # Spark knows that the suspects are few, but not that a join with them has few rows.
    suspects = tables.suspects.where("absent").select(
        "topic", "partition", F.col("acked_offset").alias("offset")
    )
    elsewhere = (
        tables.suspects.where("phantom")
        .groupBy("topic", "producer", "sequence")
        .agg(F.min(F.struct("partition", "first_offset")).alias("elsewhere"))
    )
    decided = decided.join(records_at(tables, suspects), PLACE, "left").join(
        elsewhere, ["topic", "producer", "sequence"], "left"
    )

    offset = F.col("offset")
    found = F.when(offset.isNull(), F.lit("no offset was acked")).otherwise(content_at(offset))
    also = text(
        "; it stands in {}-{} at offset {}",
        F.col("topic"),
        F.col("elsewhere.partition"),
        F.col("elsewhere.first_offset"),
    )
    return as_anomalies(
        decided,
        Anomaly.LOST,
        tables=tables,
        found=F.concat(found, F.coalesce(also, F.lit(""))),
    )


_COMPACTED = "no offset was acked, and a record of its key stands: compaction may have removed it"


def unseen(tables: RunTables) -> DataFrame:
    """Return one row for each unseen send; `found` says why it could not be seen."""
    found = (
        F.when(F.col("why_not").isNotNull(), F.col("why_not"))
        .when(F.col("complete").isNull(), F.lit("the partition was not read"))
        .when(~F.col("complete"), F.coalesce("reason", F.lit("the partition was not read whole")))
        .when(F.col("newest_of_key").isNotNull(), F.lit(_COMPACTED))
        .otherwise(
            text(
                "no offset was acked, and what stood before offset {} was removed by retention",
                F.col("begin_offset"),
            )
        )
    )
    return as_anomalies(
        absent(tables).where(~F.col("decidable")),
        Anomaly.UNSEEN,
        tables=tables,
        offset="acked_offset",
        found=found,
    )


CHECKS = (
    Check(anomaly=Anomaly.LOST, find=lost, suspects="absent", absent="decidable"),
    Check(anomaly=Anomaly.UNSEEN, find=unseen, suspects="absent", absent="not decidable"),
)
