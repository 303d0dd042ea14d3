"""Records that a share group got again after it had accepted them (`docs/reference/anomalies.md`).

    consumer 0   gets sequence 7, accepts it, and the broker answers without error
    consumer 1   gets sequence 7 later                      <- delivered-after-accept

An accept that the broker refused, or did not answer, promises nothing. A record that waited in its
consumer, while its lock expired and another one accepted it, is `redelivered` instead.
"""

from __future__ import annotations

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.checks.check import ClientCheck
from ackproof_spark.checks.deliveries import after_accept, deliveries, with_accepts
from ackproof_spark.reading.run_tables import NAME, RunTables, StoredRun
from ackproof_spark.spark.functions import DataFrame, F


def delivered_after_accept(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each delivery after the broker had taken an accept."""
    later = with_accepts(deliveries(run), run).where(after_accept())
    sends = tables.ledger.select(*NAME, "sent_at", "resolved_at")
    return as_anomalies(
        later.join(sends, NAME, "left"),
        Anomaly.DELIVERED_AFTER_ACCEPT,
        tables=tables,
        found=text(
            "delivery {} to {}, to consumer {}, after consumer {} had accepted it",
            F.col("nth"),
            F.col("group"),
            F.col("consumer"),
            F.col("accept.consumer"),
        ),
    )


CHECKS = (
    ClientCheck(
        anomalies=(Anomaly.DELIVERED_AFTER_ACCEPT,),
        find=delivered_after_accept,
        tables=("acquisitions",),
    ),
)
