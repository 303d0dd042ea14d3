"""Records that a share group processed after a later one of the same key (`anomalies.md`).

    producer 0   sends sequences 3 and 5 with the same key
    consumer 1   processes sequence 5
    consumer 0   processes sequence 3                       <- unordered

A share group promises no order (KIP-932). It counts only of a workload with keys; the sends of a
producer take them in turn. The first processing of a record counts.
"""

from __future__ import annotations

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.checks.check import ClientCheck
from ackproof_spark.checks.deliveries import OF_GROUP
from ackproof_spark.reading.run_tables import NAME, PARTITION, RunTables, StoredRun
from ackproof_spark.spark.functions import DataFrame, F, Window


def unordered(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each record that a group processed after a later one of its key."""
    keyed = (
        run["share_groups"].where("keys is not null").select("group", "topic", "keys").distinct()
    )
    first = (
        run["effects"]
        .where(F.col("producer").isNotNull())
        .join(F.broadcast(keyed), ["group", "topic"])
        .withColumn("key", F.col("sequence") % F.col("keys"))
        .groupBy(*OF_GROUP, "key")
        .agg(F.min("processed_at").alias("processed_at"))
    )
    later = (
        Window.partitionBy("group", *PARTITION, "key")
        .orderBy("offset")
        .rowsBetween(1, Window.unboundedFollowing)
    )
    overtaken = first.withColumn("overtaken_at", F.min("processed_at").over(later)).where(
        F.col("overtaken_at") < F.col("processed_at")
    )
    sends = tables.ledger.select(*NAME, "sent_at", "resolved_at")
    return as_anomalies(
        overtaken.join(sends, NAME, "left"),
        Anomaly.UNORDERED,
        tables=tables,
        found=text("processed by {} after a later record of key {}", F.col("group"), F.col("key")),
    )


CHECKS = (ClientCheck(anomalies=(Anomaly.UNORDERED,), find=unordered, tables=("share_groups",)),)
