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

from typing import TYPE_CHECKING

from ackproof_spark.checks.anomaly_rows import text
from ackproof_spark.forensics.evidence import Evidence
from ackproof_spark.reading.run_tables import RunTables
from ackproof_spark.spark.functions import F, Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PLACE = ["topic", "partition"]


def find(evidence: Evidence, tables: RunTables) -> DataFrame | None:
    """Return one row for each gap: topic, partition, first offset, found; None without gaps.

    Only of partitions that were read to their end and have segments of an in-sync replica.
    """
    replicas = evidence.in_sync().select(*_PLACE, "broker").persist()
    ends = (
        tables.partition_ends.where("complete")
        .select(*_PLACE, F.col("begin_offset").alias("begin"), F.col("end_offset").alias("end"))
        .join(replicas, _PLACE, "left_semi")
    )
    span = [*_PLACE, F.col("base_offset").alias("low"), F.col("last_offset").alias("high")]
    batches = evidence.replica_batches.join(replicas, [*_PLACE, "broker"], "left_semi")
    markers = batches.where("control").select(*span).distinct()
    read = tables.final_log.select(
        *_PLACE, F.col("offset").alias("low"), F.col("offset").alias("high")
    )
    # Counting is cheap: gaps are searched only where a count is too low.
    transactional = batches.where("transactional and not control").select(*span).distinct()
    # All records of a batch are invisible, or none: its first one decides.
    hidden = transactional.join(read.select(*_PLACE, "low"), [*_PLACE, "low"], "left_anti")
    covered = read.unionByName(markers).unionByName(hidden)
    short = _short(covered, ends)
    if not short:
        return None
    gaps = _between(covered, ends.where(_any_of(short)))
    return _described(gaps, batches)


def _short(covered: DataFrame, ends: DataFrame) -> list[tuple[str, int]]:
    within = (F.col("low") >= F.col("begin")) & (F.col("high") < F.col("end"))
    # The small side is broadcast and the rows are added up where they are read: a run has millions.
    counted = (
        covered.join(F.broadcast(ends), _PLACE)
        .groupBy(*_PLACE)
        .agg(F.sum(F.when(within, F.col("high") - F.col("low") + 1)).alias("offsets"))
    )
    rows = (
        ends.join(F.broadcast(counted), _PLACE, "left")
        .where(F.coalesce("offsets", F.lit(0)) < F.col("end") - F.col("begin"))
        .collect()
    )
    return [(row["topic"], row["partition"]) for row in rows]


def _any_of(places: list[tuple[str, int]]) -> Column:
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
