"""Records that a share group gave up, and of which there is no dead letter (`anomalies.md`).

    group workers   has the dead-letter topic dlq.orders (KIP-1191)
    consumer 0      gets sequence 7, and rejects it
    broker          cannot write to dlq.orders, and archives it all the same <- dead-letter-missing

A group that is at rest has accepted a record or given it up. An accept may have been carried out,
unless its answer is that the consumer no longer had the record.
"""

from __future__ import annotations

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.checks.check import ClientCheck
from ackproof_spark.checks.deliveries import OF_GROUP, RECORD, at_rest, deliveries
from ackproof_spark.reading.run_tables import NAME, PARTITION, RunTables, StoredRun
from ackproof_spark.spark.functions import DataFrame, F
from ackproof_spark.tables import LOCK_EXPIRED, RecordState


def dead_letter_missing(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each record and group that gave it up without a dead letter."""
    expired = F.coalesce(F.col("error").isin(*LOCK_EXPIRED), F.lit(False))
    maybe_accepted = run["acknowledgements"].where((F.col("kind") == "accept") & ~expired)
    in_log = tables.final_log.where(F.col("state") == RecordState.INTACT).select(*RECORD)
    group = at_rest(run).where(F.col("dead_letters").isNotNull())
    given_up = (
        deliveries(run)
        .groupBy(*OF_GROUP)
        .agg(F.max("nth").alias("times"))
        .join(F.broadcast(group), ["group", *PARTITION])
        .join(maybe_accepted.select(*OF_GROUP), OF_GROUP, "left_anti")
        .join(in_log, RECORD, "left_semi")
    )
    letter = ["group", *PARTITION, "offset"]
    missing = given_up.join(run["dead_letters"].select(*letter), letter, "left_anti")
    sends = tables.ledger.select(*NAME, "sent_at", "resolved_at")
    return as_anomalies(
        missing.join(sends, NAME, "left"),
        Anomaly.DEAD_LETTER_MISSING,
        tables=tables,
        found=text(
            "delivered to {} {} times and given up, and {} has no letter of it",
            F.col("group"),
            F.col("times"),
            F.col("dead_letters"),
        ),
    )


CHECKS = (
    ClientCheck(
        anomalies=(Anomaly.DEAD_LETTER_MISSING,),
        find=dead_letter_missing,
        tables=("dead_letters",),
    ),
)
