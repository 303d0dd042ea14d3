"""Reordered: a record stands behind one that its producer sent later to the same partition.

Only first occurrences count, so that a late duplicate is not also out of order, and only records
of acked and unknown sends: a phantom has no place in any order.

    orders-0 offset 5       producer 1 sequence 5
    orders-0 offset 6       producer 1 sequence 7
    orders-0 offset 7       producer 1 sequence 6           <- reordered: behind sequence 7
    orders-0 offset 8       producer 2 sequence 1           another producer: no order between
    orders-0 offset 9       producer 1 sequence 5           a duplicate, not reordered
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.reading.run_tables import RunTables
from ackproof_spark.spark.functions import F
from ackproof_spark.tables import RecordState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(tables: RunTables) -> DataFrame:
    """Return one row a record that comes too late; `found` names the one it should precede."""
    late = tables.suspects.where(F.col("ahead").isNotNull())
    name = ["topic", "partition", "producer", "ahead"]
    ahead = (
        tables.final_log.where(F.col("state") == RecordState.INTACT)
        .withColumnRenamed("sequence", "ahead")
        .join(late.select(*name), name, "left_semi")
        .groupBy(*name)
        .agg(F.min("offset").alias("ahead_offset"))
    )
    return as_anomalies(
        late.join(ahead, name),
        Anomaly.REORDERED,
        tables=tables,
        offset=F.col("first_offset"),
        found=text(
            "behind sequence {}, which stands at offset {}", F.col("ahead"), F.col("ahead_offset")
        ),
    )
