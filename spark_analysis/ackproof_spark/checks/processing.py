"""Records that a consumer group did not process, or processed again.

Unprocessed: a record of the final log that a group did not process, although it consumed up to the
end. A group has to process a partition from the offset of its first poll on.

    orders-0 holds sequences 6, 7, 8
    consumer 0   reads 6, 7, 8, commits offset 9, processes 6, dies
    consumer 1   continues from offset 9                        <- 7 and 8: unprocessed

Reprocessed: a group processed the same record, at the same offset, more than once.

    consumer 0   reads 6, 7, 8, processes 6, dies
    consumer 1   continues from offset 6, processes 6, 7, 8     <- 6: reprocessed
"""

from __future__ import annotations

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.reading.run_tables import NAME, RunTables, StoredRun
from ackproof_spark.spark.functions import DataFrame, F
from ackproof_spark.tables import RecordState

_PARTITION = ["topic", "partition"]
_RECORD = [*NAME, "offset"]


def unprocessed(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each record and group that did not process it."""
    reads, effects = run["reads"], run["effects"]
    begins = reads.groupBy("group", *_PARTITION).agg(F.min("offset").alias("begin"))
    records = (
        tables.final_log.where(F.col("state") == RecordState.INTACT)
        .select(*_RECORD)
        .join(F.broadcast(begins), _PARTITION)
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
        found=F.when(by.isNull(), text("never read by {}", F.col("group"))).otherwise(
            text("read by consumer {} of {}, and not processed", by, F.col("group"))
        ),
    )


def reprocessed(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each repetition: a record processed three times has two."""
    effects = run["effects"]
    again = (
        effects.where(F.col("producer").isNotNull())
        .groupBy("group", *_RECORD)
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
