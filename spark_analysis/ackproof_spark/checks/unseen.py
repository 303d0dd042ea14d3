"""Unseen: acked, and the log could not be read far enough to tell. Makes a run inconclusive.

    producer 1 sequence 6   acked at orders-0 offset 6      lost: reading got past offset 6
    producer 1 sequence 7   acked at orders-0 offset 7      in the log
    producer 1 sequence 8   acked at orders-0 offset 8      <- unseen: reading ended at 8
    producer 1 sequence 9   acked, no offset known          <- unseen
    orders-0 holds, at 7: sequence 7; incomplete: read up to 8 of 12

Unseen too: a send without an acked offset that is absent from a log whose begin retention moved,
and a send of an application whose record nobody can tell (`tables.UNDECIDABLE`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.absent import absent
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.reading.run_tables import RunTables
from ackproof_spark.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_COMPACTED = "no offset was acked, and a record of its key stands: compaction may have removed it"


def find(tables: RunTables) -> DataFrame:
    """Return one row an unseen send; `found` says why it could not be seen."""
    found = (
        F.when(F.col("why_not").isNotNull(), F.col("why_not"))
        .when(F.col("complete").isNull(), F.lit("the partition was not read"))
        .when(~F.col("complete"), F.coalesce("reason", F.lit("the partition was not read whole")))
        .when(F.col("newest_of_key").isNotNull(), F.lit(_COMPACTED))
        .otherwise(
            text(
                "no offset was acked, and what stood before offset {} was removed by retention",
                F.col("begin_offset"),
            )
        )
    )
    return as_anomalies(
        absent(tables).where(~F.col("decidable")),
        Anomaly.UNSEEN,
        tables=tables,
        offset=F.col("acked_offset"),
        found=found,
    )
