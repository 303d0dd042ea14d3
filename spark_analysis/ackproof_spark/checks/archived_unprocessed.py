"""Records that a share group got, did not process, and never gets again (`anomalies.md`).

    group workers   share.delivery.count.limit is 2
    consumer 0      gets sequence 7, and releases it, twice
    broker          archives sequence 7: it is at its limit <- archived-unprocessed
    consumer 0      gets sequence 8, and rejects it: archived because the application asked for it

Consumers process a record before they accept it. So a record that nobody processed was never
accepted, and a group at rest has archived it.
"""

from __future__ import annotations

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.checks.check import ClientCheck
from ackproof_spark.checks.deliveries import OF_GROUP, RECORD, at_rest, deliveries
from ackproof_spark.reading.run_tables import NAME, PARTITION, RunTables, StoredRun
from ackproof_spark.spark.functions import DataFrame, F
from ackproof_spark.tables import RecordState


def archived_unprocessed(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each record and group that gave it up."""
    rejected = run["acknowledgements"].where("kind = 'reject'")
    in_log = tables.final_log.where(F.col("state") == RecordState.INTACT).select(*RECORD)
    given_up = (
        deliveries(run)
        .groupBy(*OF_GROUP)
        .agg(F.max("nth").alias("times"))
        .join(F.broadcast(at_rest(run)), ["group", *PARTITION])
        .join(run["effects"].select(*OF_GROUP), OF_GROUP, "left_anti")
        .join(rejected.select(*OF_GROUP), OF_GROUP, "left_anti")
        .join(in_log, RECORD, "left_semi")
    )
    sends = tables.ledger.select(*NAME, "sent_at", "resolved_at")
    return as_anomalies(
        given_up.join(sends, NAME, "left"),
        Anomaly.ARCHIVED_UNPROCESSED,
        tables=tables,
        found=text(
            "delivered to {} {} times, processed by no consumer, and given up",
            F.col("group"),
            F.col("times"),
        ),
    )


CHECKS = (
    ClientCheck(
        anomalies=(Anomaly.ARCHIVED_UNPROCESSED,),
        find=archived_unprocessed,
        tables=("share_groups",),
    ),
)
