"""What the final log holds at given offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof_spark.checks.anomaly_rows import text
from ackproof_spark.reading.run_tables import PLACE, RunTables
from ackproof_spark.spark.functions import F
from ackproof_spark.tables import RecordState

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def standing(tables: RunTables, places: DataFrame) -> DataFrame:
    """Return the records at `places`: their `state`, and their name as `there`."""
    return tables.final_log.join(places, PLACE, "left_semi").select(
        *PLACE, "state", F.struct("producer", "sequence").alias("there")
    )


def what_stands(offset: Column) -> Column:
    """Return in words what stands at `offset` now.

    Evaluated on a frame with the columns of `standing` and of `absent.how_far`.
    """
    end = F.when(F.col("complete"), F.col("end_offset")).otherwise(F.col("read_to"))
    there = F.col("there")
    return (
        F.when(
            F.col("state") == RecordState.INTACT,
            text(
                "offset {} holds producer {} sequence {}",
                offset,
                there["producer"],
                there["sequence"],
            ),
        )
        .when(
            F.col("state").isNotNull(), text("offset {} holds a {} record", offset, F.col("state"))
        )
        .when(offset >= end, text("nothing: the log ends at {}", end))
        .otherwise(text("a gap: no record at offset {}", offset))
    )
