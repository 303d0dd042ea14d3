"""Corrupt: a record of the run whose bytes do not match their checksum.

    producer 1 sequence 7   acked at orders-0 offset 7
    producer 1 sequence 8   acked, no offset known (acks=0)
    orders-0 offset 7       corrupt, header unreadable      <- corrupt: sequence 7 was acked there
    orders-0 offset 8       corrupt, header says sequence 8 <- corrupt: sequence 8
    orders-0 offset 9       corrupt, header says sequence 7 <- corrupt: stands for no known send

A corrupt record stands for the send in its header, if that send was acked at this offset or has no
acked offset. Otherwise it stands for the send acked at its offset (of several, the one with the
lowest name). That send is corrupt, and not also lost.
"""

from __future__ import annotations

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.reading.record_columns import number
from ackproof_spark.reading.run_tables import PLACE, RunTables, cached_for_run
from ackproof_spark.record import HEADER_SIZE, run_token
from ackproof_spark.spark.functions import DataFrame, F
from ackproof_spark.tables import Outcome, RecordState

_AT_OFFSET_AND_NAMED, _NAMED, _AT_OFFSET = range(3)


def find(tables: RunTables) -> DataFrame:
    """Return one row for each corrupt record; `found` describes its bytes."""
    records = _records(tables).join(identified(tables), PLACE, "left")
    header = F.col("header")
    wrong = "the bytes do not match their checksum"
    found = (
        F.when(F.col("size") < HEADER_SIZE, text("cut short: {} bytes are left", F.col("size")))
        .when(header.isNull(), F.lit(f"{wrong}; their header names no send of this run"))
        .when(header == F.struct("producer", "sequence"), F.lit(wrong))
        .otherwise(
            text(
                f"{wrong}; their header says producer {{}} sequence {{}}",
                header["producer"],
                header["sequence"],
            )
        )
    )
    return as_anomalies(records, Anomaly.CORRUPT, tables=tables, found=found)


@cached_for_run
def identified(tables: RunTables) -> DataFrame:
    """Return the send that each corrupt record stands for, if any.

    Columns: topic, partition, offset (the record's), producer, sequence, sent_at, resolved_at.
    """
    records = _records(tables)
    header = F.col("header")
    send = F.struct("producer", "sequence")
    at_offset = (
        tables.ledger.where(F.col("outcome") == Outcome.ACKED)
        .join(records, PLACE)
        .withColumn("how", F.when(header == send, _AT_OFFSET_AND_NAMED).otherwise(_AT_OFFSET))
    )
    named = (
        tables.ledger.where(F.col("offset").isNull())
        .drop("offset")
        .join(
            records.select("*", "header.producer", "header.sequence"),
            ["topic", "partition", "producer", "sequence"],
        )
        .withColumn("how", F.lit(_NAMED))
    )
    columns = [*PLACE, "how", "producer", "sequence", "sent_at", "resolved_at"]
    best = F.min(F.struct("how", "producer", "sequence", "sent_at", "resolved_at"))
    return (
        at_offset.select(columns)
        .unionByName(named.select(columns))
        .groupBy(*PLACE)
        .agg(best.alias("send"))
        .select(*PLACE, "send.producer", "send.sequence", "send.sent_at", "send.resolved_at")
    )


def _records(tables: RunTables) -> DataFrame:
    """Return corrupt records with size and `header` (producer and sequence, null if unreadable)."""
    head = F.col("head")
    token = run_token(tables.run_id).hex().upper()
    readable = (F.col("size") >= HEADER_SIZE) & (F.substring(head, 17, 16) == token)
    name = F.struct(
        number(F.substring(head, 33, 16)).alias("producer"),
        number(F.substring(head, 49, 16)).alias("sequence"),
    )
    return tables.damaged.where(F.col("state") == RecordState.CORRUPT).select(
        *PLACE, "size", F.when(readable, name).alias("header")
    )
