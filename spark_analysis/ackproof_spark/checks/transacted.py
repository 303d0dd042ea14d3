"""What goes wrong with transactions, beyond what the final log shows.

`aborted-read`: a consumer was given a record whose transaction is certainly not committed. With
`read_uncommitted` that is what was asked for, and not what an application wants.

`zombie-commit`: a producer committed records after its successor had begun:

    producer 0   transaction 3 open, sequences 300 to 399
    producer 1   begins, to take over from producer 0
    producer 0   commits transaction 3                      <- zombie-commit, 100 records

Where both have the same transactional.id, the coordinator fences the first one (KIP-98).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ackproof_spark.checks.anomalies import as_anomalies, text
from ackproof_spark.reading.run_tables import NAME, RunTables, read_optional
from ackproof_spark.tables import (
    READS,
    TRANSACTIONS,
    Anomaly,
    Outcome,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def find(spark: SparkSession, run_dir: Path | str, tables: RunTables) -> DataFrame:
    """Return one row a record that a consumer or a zombie must not have had."""
    from pyspark.sql import functions as F  # noqa: N812

    transactions = read_optional(spark, run_dir, "transactions", TRANSACTIONS)
    reads = read_optional(spark, run_dir, "reads", READS)
    aborted = tables.ledger.where(F.col("outcome") == Outcome.ABORTED)
    given = reads.where(F.col("producer").isNotNull()).select(
        *NAME, F.col("offset").alias("at"), "consumer", "group", "isolation_level"
    )
    aborted_reads = as_anomalies(
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
    return aborted_reads.unionByName(_of_zombies(transactions, tables))


def _of_zombies(transactions: DataFrame, tables: RunTables) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

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
