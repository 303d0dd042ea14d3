"""What groups of consumers made of the log: processed, skipped, processed again; in which order.

    orders-0 holds sequences 6, 7, 8
    consumer 0   reads 6, 7, 8, commits offset 9, processes 6, dies
    consumer 1   goes on from offset 9                      <- 7 and 8: unprocessed

    consumer 0   reads 6, 7, 8, processes 6, dies
    consumer 1   goes on from offset 6, processes 6, 7, 8   <- 6: reprocessed

`unprocessed`: in the final log, and not processed by a group, though that consumed up to the end.
`reprocessed`: the same record, at the same place, processed more than once by a group; one row a
surplus time. What a group is to process begins where its first poll of a partition did. `poll-skip`
and `nonmonotonic-poll` are `histories`' checks, put to the polls of the run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ackproof_spark.checks.anomalies import as_anomalies, text
from ackproof_spark.checks.of_run import out_of_order
from ackproof_spark.reading.run_tables import NAME, RunTables, read_optional
from ackproof_spark.tables import (
    CONSUMER_EVENTS,
    EFFECTS,
    READS,
    Anomaly,
    RecordState,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLACE = ["topic", "partition"]
_RECORD = [*NAME, "offset"]


def find(spark: SparkSession, run_dir: Path | str, tables: RunTables) -> DataFrame:
    """Return one row a record and group that did not process it once, or not in order."""
    reads = read_optional(spark, run_dir, "reads", READS)
    effects = read_optional(spark, run_dir, "effects", EFFECTS)
    events = read_optional(spark, run_dir, "consumer_events", CONSUMER_EVENTS)
    return (
        _unprocessed(tables, reads, effects)
        .unionByName(_reprocessed(tables, effects))
        .unionByName(out_of_order(spark, tables, reads, events))
    )


def _unprocessed(tables: RunTables, reads: DataFrame, effects: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    begins = reads.groupBy("group", *_PLACE).agg(F.min("offset").alias("begin"))
    records = (
        tables.final_log.where(F.col("state") == RecordState.INTACT)
        .select(*_RECORD)
        .join(F.broadcast(begins), _PLACE)
        .where(F.col("offset") >= F.col("begin"))
    )
    missing = records.join(effects.select("group", *_RECORD), ["group", *_RECORD], "left_anti")
    readers = reads.groupBy("group", *_RECORD).agg(
        F.min(F.struct("read_at", "consumer")).alias("first")
    )
    told = tables.ledger.select(*NAME, "sent_at", "resolved_at")
    by = F.col("first.consumer")
    return as_anomalies(
        missing.join(readers, ["group", *_RECORD], "left")
        .join(told, NAME, "left")
        .withColumn("at", F.col("offset")),
        Anomaly.UNPROCESSED,
        tables=tables,
        offset=F.col("at"),
        found=F.when(by.isNull(), text("never read by {}", F.col("group"))).otherwise(
            text("read by consumer {} of {}, and not processed", by, F.col("group"))
        ),
    )


def _reprocessed(tables: RunTables, effects: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    again = (
        effects.where(F.col("producer").isNotNull())
        .groupBy("group", *_RECORD)
        .agg(F.count("*").alias("times"))
        .where(F.col("times") > 1)
        .withColumn("surplus", F.explode(F.sequence(F.lit(2), F.col("times").cast("int"))))
    )
    told = tables.ledger.select(*NAME, "sent_at", "resolved_at")
    return as_anomalies(
        again.join(told, NAME, "left").withColumn("at", F.col("offset")),
        Anomaly.REPROCESSED,
        tables=tables,
        offset=F.col("at"),
        found=text(
            "processed by {}, time {} of {}", F.col("group"), F.col("surplus"), F.col("times")
        ),
    )
