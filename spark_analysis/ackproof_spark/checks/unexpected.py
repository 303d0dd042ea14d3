"""Records that no send explains: corrupt ones, and phantoms (`docs/reference/anomalies.md`).

    producer 1 sequence 7   acked at orders-0 offset 7
    producer 1 sequence 8   acked, no offset known (acks=0)
    orders-0 offset 7       corrupt, header unreadable      <- corrupt: sequence 7 was acked there
    orders-0 offset 8       corrupt, header says sequence 8 <- corrupt: sequence 8
    orders-0 offset 9       corrupt, header says sequence 7 <- corrupt: stands for no known send

A corrupt record stands for the send in its header, if that send was acked at this offset or has no
acked offset. Otherwise it stands for the send acked at its offset (of several, the one with the
lowest name). That send is corrupt, and not also lost.

    producer 1 sequence 7   acked at orders-0 offset 7
    producer 1 sequence 8   failed (MSG_SIZE_TOO_LARGE)
    orders-0 offset 8       producer 1 sequence 8           <- phantom: yet written
    orders-1 offset 3       producer 1 sequence 7           <- phantom: sent to orders-0
    orders-0 offset 9       no header of ours               <- phantom: foreign

A phantom has one row for each name in a partition, at its first offset, and for each foreign
record. Records of unknown sends are no phantoms, because they may be written.
"""

from __future__ import annotations

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.checks.check import Check
from ackproof_spark.reading.record_columns import number
from ackproof_spark.reading.run_tables import PLACE, RunTables, cached_for_run
from ackproof_spark.record import HEADER_SIZE, MAGIC, run_token
from ackproof_spark.spark.functions import DataFrame, F
from ackproof_spark.tables import Outcome, RecordState

_CORRUPT = f"state = '{RecordState.CORRUPT}'"
_FOREIGN = f"state = '{RecordState.FOREIGN}'"

_AT_OFFSET_AND_NAMED, _NAMED, _AT_OFFSET = range(3)


def corrupt(tables: RunTables) -> DataFrame:
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
    return tables.damaged.where(_CORRUPT).select(
        *PLACE, "size", F.when(readable, name).alias("header")
    )


def phantom(tables: RunTables) -> DataFrame:
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
    foreign = tables.damaged.where(_FOREIGN)
    return as_anomalies(foreign, Anomaly.PHANTOM, tables=tables, found=found)


CHECKS = (
    Check(anomaly=Anomaly.PHANTOM, find=phantom, suspects="phantom", damaged=_FOREIGN),
    Check(anomaly=Anomaly.CORRUPT, find=corrupt, damaged=_CORRUPT),
)
