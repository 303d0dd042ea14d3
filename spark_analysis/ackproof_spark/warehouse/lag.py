"""Consumer lag of runs, second by second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof_spark.spark.functions import F, Window
from ackproof_spark.tables import Outcome

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: What names a partition of a topic of a run.
PARTITION = ["run_id", "topic", "partition"]


def second(time: Column) -> Column:
    """Return a time in whole seconds since the epoch."""
    return F.floor(F.unix_micros(time) / 1_000_000).cast("bigint")


def lag(ledger: DataFrame, reads: DataFrame, seconds: DataFrame) -> DataFrame:
    """Return `run_id`, `s` and `lag` at the end of each second: of the group with the highest lag.

    `seconds` has the run's seconds: `run_id`, `s`. A group's lag is the sum over partitions of the
    highest acked offset minus the highest offset that the group read; before its first read, minus
    the offset before the first acked one. Seconds before the first ack with an offset have no row,
    and a run without consumers has none.
    """
    sends = ledger.where((F.col("outcome") == Outcome.ACKED) & F.col("offset").isNotNull())
    acked = sends.groupBy(*PARTITION, second(F.coalesce("resolved_at", "sent_at")).alias("s")).agg(
        F.max("offset").alias("acked"), F.min("offset").alias("lowest")
    )
    read = reads.groupBy("group", *PARTITION, second(F.col("read_at")).alias("s")).agg(
        F.max("offset").alias("read")
    )
    by_partition = Window.partitionBy("group", *PARTITION)
    until_now = by_partition.orderBy("s").rowsBetween(Window.unboundedPreceding, 0)
    first = F.min("lowest").over(by_partition) - 1
    behind = F.max("acked").over(until_now) - F.coalesce(F.max("read").over(until_now), first)
    return (
        reads.select("run_id", "group")
        .distinct()
        .join(acked.select(*PARTITION).distinct(), "run_id")
        .join(seconds, "run_id")
        .join(acked, [*PARTITION, "s"], "left")
        .join(read, ["group", *PARTITION, "s"], "left")
        # `greatest` alone would turn null, before the first ack, into 0.
        .withColumn("behind", F.when(behind.isNotNull(), F.greatest(behind, F.lit(0))))
        .groupBy("run_id", "s", "group")
        .agg(F.sum("behind").alias("behind"))
        .where("behind is not null")
        .groupBy("run_id", "s")
        .agg(F.max("behind").alias("lag"))
    )
