"""Records that a share group got more often than its limit (`docs/reference/anomalies.md`).

    group workers   share.delivery.count.limit is 2
    consumer 0      gets sequence 7, and releases it, twice
    consumer 1      gets sequence 7                         <- over-delivered: delivery 3

A broker keeps the count of an acquired record in memory until it is acknowledged (KIP-932). A
leader that takes over may so begin again at an older count.
"""

from __future__ import annotations

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.checks.check import ClientCheck
from ackproof_spark.checks.deliveries import deliveries
from ackproof_spark.reading.run_tables import NAME, RunTables, StoredRun
from ackproof_spark.spark.functions import DataFrame, F


def over_delivered(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each delivery of a record beyond its group's limit."""
    limits = run["share_groups"].select("group", "delivery_limit").distinct()
    beyond = (
        deliveries(run)
        .join(F.broadcast(limits), "group")
        .where(F.col("nth") > F.col("delivery_limit"))
    )
    sends = tables.ledger.select(*NAME, "sent_at", "resolved_at")
    return as_anomalies(
        beyond.join(sends, NAME, "left"),
        Anomaly.OVER_DELIVERED,
        tables=tables,
        found=text(
            "delivery {} to {}, to consumer {}: the broker counted {}, and the limit is {}",
            F.col("nth"),
            F.col("group"),
            F.col("consumer"),
            F.coalesce(F.col("delivery_count").cast("string"), F.lit("nothing")),
            F.col("delivery_limit"),
        ),
    )


CHECKS = (
    ClientCheck(anomalies=(Anomaly.OVER_DELIVERED,), find=over_delivered, tables=("share_groups",)),
)
