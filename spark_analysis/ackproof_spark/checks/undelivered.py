"""Records that a share group never got, and never will (`docs/reference/anomalies.md`).

    orders-1 was added to a topic that the group reads; it holds sequences 0 to 9
    group workers   is at rest in orders-1, and begins at offset 4
    consumer 0      gets sequences 4 to 9                   <- undelivered: 0 to 3 (KAFKA-20742)

A group has to get a partition from its begin, if `share.auto.offset.reset` is earliest; else from
the first offset that it got, and one that a fault added from offset 0.
"""

from __future__ import annotations

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.checks.check import ClientCheck
from ackproof_spark.checks.deliveries import OF_GROUP, RECORD, at_rest
from ackproof_spark.checks.reads import added_partitions
from ackproof_spark.checks.resets import resets, skipped
from ackproof_spark.reading.run_tables import NAME, PARTITION, RunTables, StoredRun
from ackproof_spark.spark.functions import DataFrame, F
from ackproof_spark.spark.small_data import from_rows
from ackproof_spark.tables import RecordState, columns


def undelivered(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each record and group that did not get it."""
    records = (
        tables.final_log.where(F.col("state") == RecordState.INTACT)
        .select(*RECORD)
        .join(F.broadcast(_begins(tables, run)), PARTITION)
        .where(F.col("offset") >= F.col("begin"))
    )
    missing = records.join(run["acquisitions"].select(*OF_GROUP), OF_GROUP, "left_anti")
    return as_anomalies(
        missing.join(tables.ledger.select(*NAME, "sent_at", "resolved_at"), NAME, "left"),
        Anomaly.UNDELIVERED,
        tables=tables,
        found=text(
            "never delivered to {}, which is at rest{}", F.col("group"), skipped(resets(run))
        ),
    )


def _begins(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return the offset from which on each group at rest has to get each partition."""
    of_group = ["group", *PARTITION]
    first = run["acquisitions"].groupBy(*of_group).agg(F.min("offset").alias("first"))
    added = from_rows(
        run.spark,
        [(topic, number, 0) for topic, number in added_partitions(run)],
        columns("topic string, partition int, begins bigint"),
    )
    log = tables.partition_ends.select(*PARTITION, "begin_offset")
    begin = F.when(F.col("earliest"), F.col("begin_offset")).otherwise(
        F.coalesce("begins", "first")
    )
    return (
        at_rest(run)
        .join(log, PARTITION)
        .join(first, of_group, "left")
        .join(added, PARTITION, "left")
        .select(*of_group, begin.alias("begin"))
        .where(F.col("begin").isNotNull())
    )


CHECKS = (
    ClientCheck(anomalies=(Anomaly.UNDELIVERED,), find=undelivered, tables=("share_groups",)),
)
