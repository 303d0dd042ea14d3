"""Hanging transaction: a log has an open transaction that nobody will end.

    coordinator   transaction of producer id 7 aborted, the marker written to orders-0 at offset 11
    broker        a late record of that transaction arrives, and is appended at offset 12
    orders-0      last stable offset 12, high watermark 40     <- hanging-transaction, at 12

Consumers with read_committed cannot read past the last stable offset (KIP-664). Brokers from 3.6 on
refuse the late record (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.reading.run_tables import RunTables, StoredRun
from ackproof_spark.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each hanging transaction, at the offset of its first record."""
    hanging = run["hanging_transactions"].select(
        "topic",
        "partition",
        F.lit(None).cast("bigint").alias("producer"),
        F.lit(None).cast("bigint").alias("sequence"),
        F.col("last_at").alias("sent_at"),
        F.lit(None).cast("timestamp").alias("resolved_at"),
        "producer_id",
        "producer_epoch",
        "start_offset",
    )
    return as_anomalies(
        hanging,
        Anomaly.HANGING_TRANSACTION,
        tables=tables,
        at="sent_at",
        offset=F.col("start_offset"),
        found=text(
            "open since offset {}, of producer id {}, epoch {}: its coordinator does not know it, "
            "and read_committed consumers cannot read past it",
            F.col("start_offset"),
            F.col("producer_id"),
            F.col("producer_epoch"),
        ),
    )
