"""Acked sends without an intact record: `lost`, or `unseen` if the log was not read far enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof_spark.checks import corrupt
from ackproof_spark.reading.run_tables import NAME, RunTables, kept

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@kept
def absent(tables: RunTables) -> DataFrame:
    """Return acked sends with no intact record in their partition, unless something explains it.

    Retention explains an acked offset before `begin_offset`; a corrupt record explains the send it
    stands for (`corrupt.identified`). `decidable` says whether the partition was read far enough to
    call the send lost: completely, or beyond its acked offset. Without an acked offset, retention
    must not have removed anything either. `why_not` is why a send of an application is not
    decidable (`tables.UNDECIDABLE`).
    """
    from pyspark.sql import functions as F  # noqa: N812

    complete = F.coalesce("complete", F.lit(False))
    no_offset = F.col("acked_offset").isNull()
    removed = ~no_offset & (F.col("acked_offset") < F.coalesce("begin_offset", F.lit(0)))
    passed = F.coalesce(F.col("acked_offset") < F.col("read_to"), F.lit(False))
    sends = tables.suspects.where("absent")
    if tables.undecidable is None:
        sends = sends.withColumn("why_not", F.lit(None).cast("string"))
    else:
        reasons = tables.undecidable.select(*NAME, F.col("reason").alias("why_not"))
        sends = sends.join(reasons, NAME, "left")
    return (
        sends.join(corrupt.identified(tables).select(*NAME), NAME, "left_anti")
        .join(how_far(tables), ["topic", "partition"], "left")
        .where(~removed)
        .withColumn(
            "decidable",
            F.when(F.col("why_not").isNotNull(), F.lit(False))
            .when(no_offset, complete & (F.col("begin_offset") == 0))
            .otherwise(complete | passed),
        )
    )


@kept
def how_far(tables: RunTables) -> DataFrame:
    """Return the ends of each partition and `read_to`, the offset up to which it was read."""
    from pyspark.sql import functions as F  # noqa: N812

    ends = tables.partition_ends.select(
        "topic", "partition", "begin_offset", "end_offset", "complete", "reason"
    )
    return (
        ends.join(tables.last_offsets, ["topic", "partition"], "left")
        .withColumn("read_to", F.coalesce(F.col("last") + 1, "begin_offset"))
        .drop("last")
    )
