"""Anomalies of transactions; `docs/reference/anomalies.md` defines them.

    producer 1 sequence 7   aborted
    orders-0 offset 7       producer 1 sequence 7           <- aborted-read: in the final log
    consumer 0              read producer 1 sequence 7      <- aborted-read

An aborted send that the final log lacks is not lost.

    producer 0   transaction 3 open, sequences 300 to 399
    producer 1   begins, to take over from producer 0
    producer 0   commits transaction 3                      <- zombie-commit, 100 records

If both have the same transactional.id, the coordinator fences the first (KIP-98).

    coordinator   transaction of producer id 7 aborted, the marker written to orders-0 at offset 11
    broker        a late record of that transaction arrives, and is appended at offset 12
    orders-0      last stable offset 12, high watermark 40     <- hanging-transaction, at 12

Brokers from 3.6 on refuse the late record (KIP-890).
"""

from __future__ import annotations

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.checks.check import Check, ClientCheck
from ackproof_spark.checks.reads import by_consumers
from ackproof_spark.reading.run_tables import NAME, RunTables, StoredRun
from ackproof_spark.spark.functions import DataFrame, F
from ackproof_spark.tables import Outcome


def aborted_reads(tables: RunTables) -> DataFrame:
    """Return one row for each record of an aborted transaction in the final log."""
    return as_anomalies(
        tables.suspects.where("withdrawn"),
        Anomaly.ABORTED_READ,
        tables=tables,
        offset="first_offset",
        found=F.lit("readable with read_committed"),
    )


def aborted_reads_of_consumers(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each such record that a consumer read, also one of a share group."""
    aborted = tables.ledger.where(F.col("outcome") == Outcome.ABORTED)
    given = by_consumers(run).select(*NAME, "offset", "reader")
    return as_anomalies(
        aborted.drop("offset").join(given, NAME),
        Anomaly.ABORTED_READ,
        tables=tables,
        found=text("read by {}", F.col("reader")),
    )


def zombie_commits(tables: RunTables, run: StoredRun) -> DataFrame:
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
        sends,
        Anomaly.ZOMBIE_COMMIT,
        tables=tables,
        found=text(
            "committed in transaction {}, after producer {} had taken over",
            F.col("transaction"),
            F.col("successor"),
        ),
    )


def hanging_transactions(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each hanging transaction, at the offset of its first record."""
    return as_anomalies(
        run["hanging_transactions"].withColumnRenamed("last_at", "sent_at"),
        Anomaly.HANGING_TRANSACTION,
        tables=tables,
        at="sent_at",
        offset="start_offset",
        found=text(
            "open since offset {}, of producer id {}, epoch {}: its coordinator does not know it, "
            "and read_committed consumers cannot read past it{}",
            F.col("start_offset"),
            F.col("producer_id"),
            F.col("producer_epoch"),
            F.when(F.col("aborted_at").isNull(), "").otherwise("; ackproof aborted it afterwards"),
        ),
    )


CHECKS = (
    Check(anomaly=Anomaly.ABORTED_READ, find=aborted_reads, suspects="withdrawn"),
    ClientCheck(
        anomalies=(Anomaly.ABORTED_READ,),
        find=aborted_reads_of_consumers,
        tables=("transactions",),
    ),
    ClientCheck(anomalies=(Anomaly.ZOMBIE_COMMIT,), find=zombie_commits, tables=("transactions",)),
    ClientCheck(
        anomalies=(Anomaly.HANGING_TRANSACTION,),
        find=hanging_transactions,
        tables=("hanging_transactions",),
    ),
)
