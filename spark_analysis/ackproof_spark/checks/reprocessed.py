"""Reprocessed: a group processed the same record, at the same offset, more than once.

consumer 0   reads 6, 7, 8, processes 6, dies
consumer 1   goes on from offset 6, processes 6, 7, 8   <- 6: reprocessed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.reading.run_tables import NAME, RunTables, StoredRun
from ackproof_spark.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RECORD = [*NAME, "offset"]


def find(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each surplus time that a group processed a record."""
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
        again.join(sends, NAME, "left").withColumn("at", F.col("offset")),
        Anomaly.REPROCESSED,
        tables=tables,
        offset=F.col("at"),
        found=text(
            "processed by {}, time {} of {}", F.col("group"), F.col("surplus"), F.col("times")
        ),
    )
