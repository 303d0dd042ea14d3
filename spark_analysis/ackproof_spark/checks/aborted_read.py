"""Aborted read: a record whose transaction was certainly not committed, and that was readable.

    producer 1 sequence 7   aborted
    orders-0 offset 7       producer 1 sequence 7           <- aborted-read: in the final log
    consumer 0              was given producer 1 sequence 7 <- aborted-read

The final log of a run with transactions holds what `read_committed` shows. An aborted send that is
absent from it is not lost: it was never promised. A consumer with `read_uncommitted` is given such
records as configured; the check reports them all the same, with the isolation level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.reading.run_tables import NAME, RunTables, StoredRun
from ackproof_spark.spark.functions import F
from ackproof_spark.tables import Outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(tables: RunTables) -> DataFrame:
    """Return one row for each record of an aborted transaction in the final log."""
    return as_anomalies(
        tables.suspects.where("withdrawn"),
        Anomaly.ABORTED_READ,
        tables=tables,
        offset=F.col("first_offset"),
        found=F.lit("readable with read_committed"),
    )


def find_given(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each such record that a consumer was given."""
    aborted = tables.ledger.where(F.col("outcome") == Outcome.ABORTED)
    given = (
        run["reads"]
        .where(F.col("producer").isNotNull())
        .select(*NAME, F.col("offset").alias("at"), "consumer", "group", "isolation_level")
    )
    return as_anomalies(
        aborted.drop("offset").join(given, NAME),
        Anomaly.ABORTED_READ,
        tables=tables,
        offset=F.col("at"),
        found=text(
            "read by consumer {} of {} with {}",
            F.col("consumer"),
            F.col("group"),
            F.col("isolation_level"),
        ),
    )
