"""Zombie commit: a producer committed records after its successor had begun.

    producer 0   transaction 3 open, sequences 300 to 399
    producer 1   begins, to take over from producer 0
    producer 0   commits transaction 3                      <- zombie-commit, 100 records

Where both have the same transactional.id, the coordinator fences the first one (KIP-98).
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
    """Return one row for each record that a zombie committed."""
    transactions = run["transactions"]
    successors = (
        transactions.where(F.col("predecessor").isNotNull())
        .groupBy(F.col("predecessor").alias("producer"))
        .agg(
            F.min("initialized_at").alias("succeeded_at"),
            F.min(F.col("producer")).alias("successor"),
        )
    )
    zombies = (
        transactions.where(F.col("outcome") == "committed")
        .join(F.broadcast(successors), "producer")
        .where(F.col("ended_at") > F.col("succeeded_at"))
        .select("producer", "transaction", "first_sequence", "end_sequence", "successor")
    )
    sends = tables.ledger.join(F.broadcast(zombies), "producer").where(
        (F.col("sequence") >= F.col("first_sequence")) & (F.col("sequence") < F.col("end_sequence"))
    )
    return as_anomalies(
        sends.withColumn("at", F.col("offset")),
        Anomaly.ZOMBIE_COMMIT,
        tables=tables,
        offset=F.col("at"),
        found=text(
            "committed in transaction {}, after producer {} had taken over",
            F.col("transaction"),
            F.col("successor"),
        ),
    )
