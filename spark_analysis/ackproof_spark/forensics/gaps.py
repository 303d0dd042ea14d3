"""Gaps: offsets of a partition at which no record was read and no control batch is.

A leader assigns consecutive offsets. So every offset holds a record or belongs to a control batch
(the marker that ends a transaction), unless retention or compaction removed it, or it is invisible
to read_committed: a transactional batch of which nothing was read. (If that was committed, its
sends are lost.) The replicas' segments distinguish a hole in the log from records that were not
read:

    final log   6 7 8   .   10 11   .  .   14
    markers             9
                                    12-13       <- gap; "no replica holds a batch there", or
                                                   "brokers 1, 2, 3 hold a batch there, unread"
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ackproof_spark.checks.anomaly_rows import text
from ackproof_spark.forensics.evidence import in_sync
from ackproof_spark.reading.run_tables import StoredRun
from ackproof_spark.spark.functions import F, Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PLACE = ["topic", "partition"]


def short(run: StoredRun) -> DataFrame:
    """Return the partitions with fewer offsets covered than they have: topic, partition.

    Only of partitions that were read to their end and have segments of an in-sync replica.
    Counting is cheap, and gaps are searched only in these.
    """
    covered, ends = _covered(run)
    within = (F.col("low") >= F.col("begin")) & (F.col("high") < F.col("end"))
    # The small side is broadcast and the rows are added up where they are read: a run has millions.
    counted = (
        covered.join(F.broadcast(ends), _PLACE)
        .groupBy(*_PLACE)
        .agg(F.sum(F.when(within, F.col("high") - F.col("low") + 1)).alias("offsets"))
    )
    return (
        ends.join(F.broadcast(counted), _PLACE, "left")
        .where(F.coalesce("offsets", F.lit(0)) < F.col("end") - F.col("begin"))
        .select(*_PLACE)
    )


def find(run: StoredRun, partitions: Sequence[tuple[str, int]]) -> DataFrame:
    """Return one row for each gap of these partitions: topic, partition, first offset, found."""
    covered, ends = _covered(run)
    return _described(_between(covered, ends.where(_any_of(partitions))), _batches(run))


def _batches(run: StoredRun) -> DataFrame:
    replicas = in_sync(run).select(*_PLACE, "broker")
    return run["replica_batches"].join(replicas, [*_PLACE, "broker"], "left_semi")


def _covered(run: StoredRun) -> tuple[DataFrame, DataFrame]:
    """Return the ranges of offsets that something explains, and the ends of partitions."""
    batches = _batches(run)
    ends = (
        run["partition_ends"]
        .where("complete")
        .select(*_PLACE, F.col("begin_offset").alias("begin"), F.col("end_offset").alias("end"))
        .join(in_sync(run), _PLACE, "left_semi")
    )
    span = [*_PLACE, F.col("base_offset").alias("low"), F.col("last_offset").alias("high")]
    markers = batches.where("control").select(*span).distinct()
    read = run["final_log"].select(
        *_PLACE, F.col("offset").alias("low"), F.col("offset").alias("high")
    )
    transactional = batches.where("transactional and not control").select(*span).distinct()
    # All records of a batch are invisible, or none: its first one decides.
    hidden = transactional.join(read.select(*_PLACE, "low"), [*_PLACE, "low"], "left_anti")
    return read.unionByName(markers).unionByName(hidden), ends


def _any_of(places: Sequence[tuple[str, int]]) -> Column:
    return F.struct("topic", "partition").isin(
        [F.struct(F.lit(topic), F.lit(partition)) for topic, partition in places]
    )


def _between(covered: DataFrame, ends: DataFrame) -> DataFrame:
    """Return topic, partition, first, last of every range that nothing covers."""
    before = ends.select(
        *_PLACE, (F.col("begin") - 1).alias("low"), (F.col("begin") - 1).alias("high")
    )
    after = ends.select(*_PLACE, F.col("end").alias("low"), F.col("end").alias("high"))
    everything = (
        covered.join(F.broadcast(ends), _PLACE)
        .where((F.col("low") >= F.col("begin")) & (F.col("high") < F.col("end")))
        .select(*_PLACE, "low", "high")
        .unionByName(before)
        .unionByName(after)
    )
    so_far = (
        Window.partitionBy(*_PLACE)
        .orderBy("low", "high")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    return (
        everything.withColumn("first", F.max("high").over(so_far) + 1)
        .where(F.col("low") > F.col("first"))
        .select(*_PLACE, "first", (F.col("low") - 1).alias("last"))
    )


def _described(gaps: DataFrame, batches: DataFrame) -> DataFrame:
    overlapping = (
        gaps.join(batches.where("not control"), _PLACE)
        .where((F.col("base_offset") <= F.col("last")) & (F.col("last_offset") >= F.col("first")))
        .groupBy(*_PLACE, "first")
        .agg(F.sort_array(F.collect_set("broker")).alias("holders"))
    )
    where = F.when(F.col("first") == F.col("last"), text("offset {}", F.col("first"))).otherwise(
        text("offsets {}-{}", F.col("first"), F.col("last"))
    )
    holders = F.array_join(F.col("holders").cast("array<string>"), ", ")
    held = F.coalesce(
        text(": the segments of brokers {} hold a batch there, yet nothing was read", holders),
        F.lit(": no replica holds a batch there"),
    )
    return gaps.join(overlapping, [*_PLACE, "first"], "left").select(
        *_PLACE, F.col("first").alias("offset"), F.concat(where, held).alias("found")
    )
