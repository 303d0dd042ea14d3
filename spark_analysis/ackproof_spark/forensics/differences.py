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

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import itemgetter, or_
from typing import Any

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_table, text
from ackproof_spark.reading.run_tables import PARTITION, StoredRun
from ackproof_spark.spark.functions import Column, DataFrame, F, Row, Window, union
from ackproof_spark.spark.small_data import answers, from_rows
from ackproof_spark.spark.storage import address
from ackproof_spark.tables import LOCATION, SCHEMA_VERSION, columns

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def compare_replicas(run: StoredRun, run_id: str) -> dict[Anomaly, int]:
    """Count the differences of each kind, and add them to the run's anomalies.

    The counts lack what could not be checked: in incomplete replica logs, a count of 0 proves
    nothing.
    """
    if not run.has("replica_logs"):
        return {}
    batches, ends = in_sync_batches(run)
    covered = _covered(run, batches, ends)
    answered = answers(differing=first_differences(batches), covered=_counted(covered), ends=ends)
    counts = dict.fromkeys((Anomaly.DIVERGED, Anomaly.GAP), 0)
    if differing := answered["differing"]:
        rows = diverged(batches, differing)
        counts[Anomaly.DIVERGED] = _add(rows, Anomaly.DIVERGED, run, run_id)
    offsets = {row[:2]: row["offsets"] for row in answered["covered"]}
    ranges = {row[:2]: row["end"] - row["begin"] for row in answered["ends"]}
    if short := [place for place in ranges if offsets.get(place, 0) < ranges[place]]:
        holes = _between(covered.where(_any_of(short)), ends.where(_any_of(short)))
        counts[Anomaly.GAP] = _add(_described(holes, batches), Anomaly.GAP, run, run_id)
    if not run.listed("replica_logs").where("not complete").isEmpty():
        counts = {anomaly: count for anomaly, count in counts.items() if count}
    return counts


def _add(rows: DataFrame, anomaly: Anomaly, run: StoredRun, run_id: str) -> int:
    """Append rows (topic, partition, offset, found) to the run's anomalies; return their number."""
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


def in_sync(run: StoredRun) -> dict[tuple[str, int, int], Row]:
    """Return the complete replica logs of the final ISR by topic, partition and broker.

    Without the controller's log, every replica counts.
    """
    states = last_states(run)
    return {
        (row["topic"], row["partition"], row["broker"]): row
        for row in run.listed("replica_logs").where("complete").collect()
        if (state := states.get((row["topic"], row["partition"]))) is None
        or row["broker"] in state["isr"]
    }


def last_states(run: StoredRun) -> dict[tuple[str, int], Row]:
    """Return the last leader and ISR of each partition, if the controller's log is known."""
    states = run.listed("partition_states").select(*PARTITION, "metadata_offset", "isr", "leader")
    in_order = sorted(states.collect(), key=itemgetter("metadata_offset"))
    return {(row["topic"], row["partition"]): row for row in in_order}


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


#: A replica in sync, all `brokers` of its partition that are, and the offsets that all should have.
_REPLICA = columns(
    "topic string, partition int, broker int, brokers array<int>, begin bigint, until bigint"
)

#: The ends of a partition that was read completely.
_ENDS = columns("topic string, partition int, begin bigint, end bigint")


def in_sync_batches(run: StoredRun) -> tuple[DataFrame, DataFrame]:
    """Return the batches of replicas in sync with `_REPLICA`, and `_ENDS` of their partitions."""
    by_partition = defaultdict(list)
    for (topic, number, _), replica in in_sync(run).items():
        by_partition[topic, number].append(replica)
    replicas, ends = [], []
    complete = run.listed("partition_ends").where("complete").collect()
    read_to = {(row["topic"], row["partition"]): row for row in complete}
    for partition, logs in by_partition.items():
        brokers = sorted(log["broker"] for log in logs)
        begin = max(log["begin_offset"] for log in logs)
        until = min(log["end_offset"] for log in logs)
        if end := read_to.get(partition):
            until = max(until, end["end_offset"])
            ends.append((*partition, end["begin_offset"], end["end_offset"]))
        replicas += [(*partition, broker, brokers, begin, until) for broker in brokers]
    of = from_rows(run.spark, replicas, _REPLICA)
    batches = run["replica_batches"].join(F.broadcast(of), [*PARTITION, "broker"])
    return batches, from_rows(run.spark, ends, _ENDS)


#: Columns that must be equal in every replica.
_SAME = ("last_offset", "leader_epoch", "size", "magic", "crc", "crc_ok")


def _overlapping(batches: DataFrame) -> DataFrame:
    return batches.where("last_offset >= begin and base_offset < until")


def first_differences(batches: DataFrame) -> DataFrame:
    """Return partitions whose replicas diverge: topic, partition, first offset, batches."""
    # Numbers only: the details of millions of batches do not fit into a hash aggregate's memory.
    unequal = [F.col(f"{name}_least") != F.col(f"{name}_most") for name in _SAME]
    return (
        _overlapping(batches)
        .groupBy(*PARTITION, "base_offset")
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


def diverged(batches: DataFrame, differing: Sequence[Row]) -> DataFrame:
    """Return a row for each partition of `first_differences`: topic, partition, offset, found."""
    first = from_rows(
        batches.sparkSession,
        differing,
        columns("topic string, partition int, offset bigint, batches bigint"),
    )
    return (
        _overlapping(batches)
        .withColumnRenamed("base_offset", "offset")
        .join(F.broadcast(first), [*PARTITION, "offset"])
        .groupBy(*PARTITION, "offset", "batches")
        .agg(
            F.first("brokers").alias("brokers"),
            F.collect_list(F.struct("broker", *_SAME)).alias("there"),
        )
        .select(*PARTITION, "offset", _description().alias("found"))
    )


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


def _counted(covered: DataFrame) -> DataFrame:
    """Return the number of covered `offsets` of each partition: cheaper than a search for gaps."""
    length = F.col("high") - F.col("low") + 1
    return covered.groupBy(*PARTITION).agg(F.sum(length).alias("offsets"))


def _covered(run: StoredRun, batches: DataFrame, ends: DataFrame) -> DataFrame:
    """Return the explained ranges of offsets within `ends`: topic, partition, low, high."""
    span = [*PARTITION, F.col("base_offset").alias("low"), F.col("last_offset").alias("high")]
    markers = batches.where("control").select(*span).distinct()
    read = run["final_log"].select(
        *PARTITION, F.col("offset").alias("low"), F.col("offset").alias("high")
    )
    transactional = batches.where("transactional and not control").select(*span).distinct()
    # Either all records of a batch are invisible or none is: the first decides.
    hidden = transactional.join(read.select(*PARTITION, "low"), [*PARTITION, "low"], "left_anti")
    return (
        union([read, markers, hidden])
        .join(F.broadcast(ends), PARTITION)
        .where((F.col("low") >= F.col("begin")) & (F.col("high") < F.col("end")))
        .select(*PARTITION, "low", "high")
    )


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
    so_far = (
        Window.partitionBy(*PARTITION)
        .orderBy("low", "high")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    return (
        union([covered, before, after])
        .withColumn("first", F.max("high").over(so_far) + 1)
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
