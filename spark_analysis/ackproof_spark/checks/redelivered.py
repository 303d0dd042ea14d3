"""Records that a share group got again though nobody released them (`anomalies.md`).

    consumer 0   gets sequence 7, and works for longer than share.record.lock.duration.ms
    consumer 1   gets sequence 7                            <- redelivered
    consumer 1   releases it
    consumer 0   gets sequence 7                            not redelivered: it was released

This is by design: the lock of the last delivery has expired, its consumer has ended, or another
broker leads the partition. A delivery after an accept is `delivered-after-accept` instead.
"""

from __future__ import annotations

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.checks.check import ClientCheck
from ackproof_spark.checks.deliveries import (
    AGAIN,
    DELIVERY,
    acknowledged,
    after_accept,
    deliveries,
    with_accepts,
)
from ackproof_spark.reading.run_tables import NAME, RunTables, StoredRun
from ackproof_spark.spark.functions import DataFrame, F


def redelivered(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each delivery after one that was not released."""
    every = deliveries(run)
    released = acknowledged(run, "release").select(*DELIVERY).withColumn("released", F.lit(True))
    before = (
        every.join(released, DELIVERY, "left")
        .withColumn("nth", F.col("nth") + 1)
        .select(*AGAIN, "nth", "released", F.col("consumer").alias("held_by"))
    )
    again = (
        with_accepts(every, run)
        .join(before, [*AGAIN, "nth"])
        .where(F.col("released").isNull() & ~after_accept())
    )
    sends = tables.ledger.select(*NAME, "sent_at", "resolved_at")
    return as_anomalies(
        again.join(sends, NAME, "left"),
        Anomaly.REDELIVERED,
        tables=tables,
        found=text(
            "delivery {} to {}, to consumer {}: consumer {} had not released it",
            F.col("nth"),
            F.col("group"),
            F.col("consumer"),
            F.col("held_by"),
        ),
    )


CHECKS = (
    ClientCheck(anomalies=(Anomaly.REDELIVERED,), find=redelivered, tables=("acquisitions",)),
)
