"""Aborted read: visible to readers of what is committed, though its transaction was aborted.

    producer 1 sequence 7   aborted
    orders-0 offset 7       producer 1 sequence 7           <- aborted-read

The final log of a run with transactions holds what `read_committed` shows. An aborted send that is
not there is not lost: nobody was promised it. What consumers were given: see `transacted`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof_spark.checks.anomalies import as_anomalies
from ackproof_spark.reading.run_tables import RunTables
from ackproof_spark.tables import Anomaly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(tables: RunTables) -> DataFrame:
    """Return one row a visible record of an aborted transaction, at its offset."""
    from pyspark.sql import functions as F  # noqa: N812

    return as_anomalies(
        tables.suspects.where("withdrawn"),
        Anomaly.ABORTED_READ,
        tables=tables,
        offset=F.col("first_offset"),
        found=F.lit("readable with read_committed"),
    )
