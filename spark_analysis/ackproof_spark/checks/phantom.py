"""Phantom: a record in the log that this run did not send there.

    producer 1 sequence 7   acked at orders-0 offset 7
    producer 1 sequence 8   failed (MSG_SIZE_TOO_LARGE)
    orders-0 offset 8       producer 1 sequence 8           <- phantom: yet written
    orders-1 offset 3       producer 1 sequence 7           <- phantom: sent to orders-0
    orders-0 offset 9       no header of ours               <- phantom: foreign

One row for each name in a partition, at its first offset (further copies are `duplicated`), and for
each foreign record. Records of unknown sends are no phantoms, because they may be written.
"""

from __future__ import annotations

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.reading.record_columns import number
from ackproof_spark.reading.run_tables import RunTables
from ackproof_spark.record import HEADER_SIZE, MAGIC
from ackproof_spark.spark.functions import DataFrame, F
from ackproof_spark.tables import RecordState


def find(tables: RunTables) -> DataFrame:
    """Return one row for each phantom; `found` says where it came from, if known."""
    return _never_sent(tables).unionByName(_foreign(tables))


def _never_sent(tables: RunTables) -> DataFrame:
    # Names are unique in a run: the send failed here, or went to another partition.
    name = ["topic", "producer", "sequence"]
    phantoms = tables.suspects.where("phantom")
    sends = tables.ledger.join(phantoms.select(*name), name, "left_semi").select(
        *name,
        F.col("partition").alias("sent_to"),
        F.coalesce("error", F.lit("no error given")).alias("error"),
    )
    found = (
        F.when(F.col("sent_to").isNull(), F.lit("never sent"))
        .when(
            F.col("sent_to") == F.col("partition"),
            text("reported failed ({}) yet written", F.col("error")),
        )
        .otherwise(text("sent to {}-{}", F.col("topic"), F.col("sent_to")))
    )
    return as_anomalies(
        phantoms.join(sends, name, "left"),
        Anomaly.PHANTOM,
        tables=tables,
        offset="first_offset",
        found=found,
    )


def _foreign(tables: RunTables) -> DataFrame:
    head = F.col("head")
    another_run = head.startswith(MAGIC.hex().upper()) & (F.col("size") >= HEADER_SIZE)
    found = (
        F.when(
            another_run,
            text(
                "of another run: its producer {} sequence {}",
                number(F.substring(head, 33, 16)),
                number(F.substring(head, 49, 16)),
            ),
        )
        .when(F.col("size") == 0, F.lit("foreign: an empty record"))
        .otherwise(text("foreign: starts with {}", F.substring(head, 1, 32)))
    )
    foreign = tables.damaged.where(F.col("state") == RecordState.FOREIGN)
    return as_anomalies(foreign, Anomaly.PHANTOM, tables=tables, found=found)
