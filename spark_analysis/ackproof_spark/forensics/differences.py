"""Replicas that differ, and logs with holes.

Diverged: replicas in sync that have different bytes at the same offsets.

A follower truncates by leader epoch (KIP-101, KIP-279), then appends its leader's batches byte by
byte. So the logs of all replicas in sync have the same batches wherever they overlap, and below the
high watermark: offsets, leader epoch, size and checksum. The bytes must match the checksum, too.

    offsets      0-9       10-19     20-29      high watermark 30
    broker 1     a1, e0    b2, e0    c3, e1
    broker 2     a1, e0    b7, e0    c3, e1     <- diverged from offset 10 on
    broker 3     a1, e0    b2, e0               <- diverged from offset 20 on: it ends too early

Replicas that are not in sync are not compared: they may lag, or must still truncate. Compacted
topics are not compared, because each broker compacts its own log.

Gaps: offsets of a partition without a record that was read, and without a control batch.

A leader assigns consecutive offsets. So every offset has a record or belongs to a control batch
(the marker that ends a transaction), unless retention or compaction removed it, or its batch is
transactional and nothing of it was read. (If that transaction was committed, its sends are lost.)
The replicas' segments distinguish a hole in the log from records that were not read:

    final log   6 7 8   .   10 11   .  .   14
    markers             9
                                    12-13       <- gap; "no replica holds a batch there", or
                                                   "brokers 1, 2, 3 hold a batch there, unread"
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_table, text
from ackproof_spark.reading.run_tables import PARTITION, StoredRun
from ackproof_spark.spark.functions import Column, DataFrame, F, Window
from ackproof_spark.spark.small_data import answers
from ackproof_spark.spark.storage import address
from ackproof_spark.tables import LOCATION, SCHEMA_VERSION

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def compare_replicas(run: StoredRun, run_id: str) -> dict[Anomaly, int]:
    """Count the differences of each kind, and add them to the run's anomalies.

    The counts lack what could not be checked: in incomplete replica logs, a count of 0 proves
    nothing.
    """
    if not run.has("replica_logs"):
        return {}
    differing = answers(diverged=diverged(run), short=short(run))
    counts = dict.fromkeys((Anomaly.DIVERGED, Anomaly.GAP), 0)
    if differing["diverged"]:
        rows = run.spark.createDataFrame(differing["diverged"], _FOUND)
        counts[Anomaly.DIVERGED] = _add(rows, Anomaly.DIVERGED, run, run_id)
    if differing["short"]:
        partitions = [(row["topic"], row["partition"]) for row in differing["short"]]
        counts[Anomaly.GAP] = _add(gaps(run, partitions), Anomaly.GAP, run, run_id)
    if not run.listed("replica_logs").where("not complete").isEmpty():
        counts = {anomaly: count for anomaly, count in counts.items() if count}
    return counts


_FOUND = "topic string, partition int, offset bigint, found string"


def _add(rows: DataFrame, anomaly: Anomaly, run: StoredRun, run_id: str) -> int:
    """Append rows (`_FOUND`) to the run's anomalies; return their number."""
    common = {"schema_version": SCHEMA_VERSION, "run_id": run_id, "anomaly": anomaly.value}
    rows = as_table(rows.withColumns({name: F.lit(value) for name, value in common.items()}))
    rows = rows.persist()
    try:
        count: int = rows.count()
        if count:
            place = f"{address(run.run_dir)}/{LOCATION['anomalies']}"
            rows.coalesce(1).write.mode("append").parquet(place)
        return count
    finally:
        rows.unpersist()
        run.forget("anomalies")


def in_sync(run: StoredRun) -> DataFrame:
    """Return the complete replica logs of the final ISR, with the column `leads`.

    Without the controller's log, every replica counts.
    """
    last = (
        run["partition_states"]
        .groupBy("topic", "partition")
        .agg(F.max_by(F.struct("isr", "leader"), "metadata_offset").alias("last"))
    )
    known = F.col("last").isNotNull()
    return (
        run["replica_logs"]
        .where("complete")
        .join(F.broadcast(last), ["topic", "partition"], "left")
        .where(~known | F.array_contains("last.isr", F.col("broker")))
        .withColumn("leads", known & (F.col("last.leader") == F.col("broker")))
        .drop("last")
    )


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """Return a small frame's rows; times have a time zone, which Spark's own rows lack."""
    times = [name for name, kind in frame.dtypes if kind == "timestamp"]
    in_micros = frame.withColumns({name: F.unix_micros(name) for name in times})
    rows = [row.asDict() for row in in_micros.collect()]
    for row in rows:
        for name in times:
            if row[name] is not None:
                row[name] = EPOCH + timedelta(microseconds=row[name])
    return rows


#: Columns that must be equal in every replica.
_SAME = ("last_offset", "leader_epoch", "size", "magic", "crc", "crc_ok")


def diverged(run: StoredRun) -> DataFrame:
    """Return one row for each partition whose replicas diverge: topic, partition, offset, found.

    `offset` is the first that differs.
    """
    replicas = in_sync(run).select(*PARTITION, "broker", "begin_offset", "end_offset")
    high_watermarks = (
        run["partition_ends"]
        .where("complete")
        .select(*PARTITION, F.col("end_offset").alias("high_watermark"))
    )
    ranges = (
        replicas.groupBy(*PARTITION)
        .agg(
            F.sort_array(F.collect_set("broker")).alias("brokers"),
            F.max("begin_offset").alias("begin"),
            F.min("end_offset").alias("least_end"),
        )
        .join(high_watermarks, PARTITION, "left")
        .select(
            *PARTITION,
            "brokers",
            "begin",
            F.greatest("least_end", "high_watermark").alias("until"),
        )
    )
    overlapping = (
        run["replica_batches"]
        .join(
            F.broadcast(replicas.select(*PARTITION, "broker")),
            [*PARTITION, "broker"],
            "left_semi",
        )
        .join(F.broadcast(ranges), PARTITION)
        .where((F.col("last_offset") >= F.col("begin")) & (F.col("base_offset") < F.col("until")))
    )
    # Numbers only: the details of millions of batches do not fit into a hash aggregate's memory.
    unequal = [F.col(f"{name}_least") != F.col(f"{name}_most") for name in _SAME]
    differing = (
        overlapping.groupBy(*PARTITION, "base_offset")
        .agg(
            F.count("*").alias("copies"),
            F.max(F.size("brokers")).alias("replicas"),
            *(F.min(name).alias(f"{name}_least") for name in _SAME),
            *(F.max(name).alias(f"{name}_most") for name in _SAME),
        )
        .where(reduce(or_, unequal, F.col("copies") != F.col("replicas")) | ~F.col("crc_ok_least"))
        .groupBy(*PARTITION)
        .agg(F.min("base_offset").alias("offset"), F.count("*").alias("batches"))
    )
    there = (
        overlapping.withColumnRenamed("base_offset", "offset")
        .join(F.broadcast(differing), [*PARTITION, "offset"])
        .groupBy(*PARTITION, "offset", "batches")
        .agg(
            F.first("brokers").alias("brokers"),
            F.collect_list(F.struct("broker", *_SAME)).alias("there"),
        )
    )
    return there.select(*PARTITION, "offset", _description().alias("found"))


def _description() -> Column:
    """Describe each broker's batch at the first differing offset."""

    def of(broker: Column) -> Column:
        own = F.filter("there", lambda batch: batch["broker"] == broker)
        there = F.get(own, F.lit(0))
        batch = text(
            "broker {}: offsets {}-{}, epoch {}, {} bytes, checksum {}",
            broker,
            F.col("offset"),
            there["last_offset"],
            there["leader_epoch"],
            there["size"],
            F.lower(F.hex(there["crc"])),
        )
        damaged = F.when(there["crc_ok"], "").otherwise(", which the bytes do not match")
        return F.coalesce(F.concat(batch, damaged), text("broker {}: no batch starts here", broker))

    copies = F.array_join(F.transform("brokers", of), "; ")
    return F.concat(copies, text("; {} batches differ", F.col("batches")))


def short(run: StoredRun) -> DataFrame:
    """Return the partitions that have gaps: topic, partition.

    Partitions that were not read to their end, or have no segments of a replica in sync, are left
    out. Counting offsets is cheaper than searching for the gaps.
    """
    covered, ends = _covered(run)
    within = (F.col("low") >= F.col("begin")) & (F.col("high") < F.col("end"))
    # A run has millions of rows: they are added up where they are read.
    counted = (
        covered.join(F.broadcast(ends), PARTITION)
        .groupBy(*PARTITION)
        .agg(F.sum(F.when(within, F.col("high") - F.col("low") + 1)).alias("offsets"))
    )
    return (
        ends.join(F.broadcast(counted), PARTITION, "left")
        .where(F.coalesce("offsets", F.lit(0)) < F.col("end") - F.col("begin"))
        .select(*PARTITION)
    )


def gaps(run: StoredRun, partitions: Sequence[tuple[str, int]]) -> DataFrame:
    """Return one row for each gap of these partitions: topic, partition, first offset, found."""
    covered, ends = _covered(run)
    return _described(_between(covered, ends.where(_any_of(partitions))), _batches(run))


def _batches(run: StoredRun) -> DataFrame:
    replicas = in_sync(run).select(*PARTITION, "broker")
    return run["replica_batches"].join(replicas, [*PARTITION, "broker"], "left_semi")


def _covered(run: StoredRun) -> tuple[DataFrame, DataFrame]:
    """Return the explained ranges of offsets, and the ends of partitions."""
    batches = _batches(run)
    ends = (
        run["partition_ends"]
        .where("complete")
        .select(*PARTITION, F.col("begin_offset").alias("begin"), F.col("end_offset").alias("end"))
        .join(in_sync(run), PARTITION, "left_semi")
    )
    span = [*PARTITION, F.col("base_offset").alias("low"), F.col("last_offset").alias("high")]
    markers = batches.where("control").select(*span).distinct()
    read = run["final_log"].select(
        *PARTITION, F.col("offset").alias("low"), F.col("offset").alias("high")
    )
    transactional = batches.where("transactional and not control").select(*span).distinct()
    # Either all records of a batch are invisible or none is: the first decides.
    hidden = transactional.join(read.select(*PARTITION, "low"), [*PARTITION, "low"], "left_anti")
    return read.unionByName(markers).unionByName(hidden), ends


def _any_of(places: Sequence[tuple[str, int]]) -> Column:
    return F.struct("topic", "partition").isin(
        [F.struct(F.lit(topic), F.lit(partition)) for topic, partition in places]
    )


def _between(covered: DataFrame, ends: DataFrame) -> DataFrame:
    """Return topic, partition, first, last of every range that is not covered."""
    before = ends.select(
        *PARTITION, (F.col("begin") - 1).alias("low"), (F.col("begin") - 1).alias("high")
    )
    after = ends.select(*PARTITION, F.col("end").alias("low"), F.col("end").alias("high"))
    everything = (
        covered.join(F.broadcast(ends), PARTITION)
        .where((F.col("low") >= F.col("begin")) & (F.col("high") < F.col("end")))
        .select(*PARTITION, "low", "high")
        .unionByName(before)
        .unionByName(after)
    )
    so_far = (
        Window.partitionBy(*PARTITION)
        .orderBy("low", "high")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    return (
        everything.withColumn("first", F.max("high").over(so_far) + 1)
        .where(F.col("low") > F.col("first"))
        .select(*PARTITION, "first", (F.col("low") - 1).alias("last"))
    )


def _described(holes: DataFrame, batches: DataFrame) -> DataFrame:
    overlaps = (
        holes.join(batches.where("not control"), PARTITION)
        .where((F.col("base_offset") <= F.col("last")) & (F.col("last_offset") >= F.col("first")))
        .groupBy(*PARTITION, "first")
        .agg(F.sort_array(F.collect_set("broker")).alias("holders"))
    )
    where = F.when(F.col("first") == F.col("last"), text("offset {}", F.col("first"))).otherwise(
        text("offsets {}-{}", F.col("first"), F.col("last"))
    )
    holders = F.array_join(F.col("holders").cast("array<string>"), ", ")
    held_by = F.coalesce(
        text(": the segments of brokers {} hold a batch there, yet nothing was read", holders),
        F.lit(": no replica holds a batch there"),
    )
    return holes.join(overlaps, [*PARTITION, "first"], "left").select(
        *PARTITION, F.col("first").alias("offset"), F.concat(where, held_by).alias("found")
    )
