"""Diverged: replicas in sync that do not hold the same bytes at the same offsets.

A follower appends its leader's batches byte by byte, and truncates by leader epoch before it does
(KIP-101, KIP-279). So where the logs of all replicas in sync overlap, and everywhere below the
high watermark, they hold the same batches: offsets, leader epoch, size and checksum; and the bytes
match the checksum, which is computed anew.

    offsets      0-9       10-19     20-29      high watermark 30
    broker 1     a1, e0    b2, e0    c3, e1
    broker 2     a1, e0    b7, e0    c3, e1     <- diverged from offset 10 on
    broker 3     a1, e0    b2, e0               <- diverged from offset 20 on: it ends too early

Replicas that are not in sync are not compared: they may lag, or have yet to truncate. Compacted
topics must not be compared at all, since each broker compacts for itself.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from ackproof_spark.checks.anomaly_rows import text
from ackproof_spark.forensics.evidence import in_sync
from ackproof_spark.reading.run_tables import StoredRun
from ackproof_spark.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Columns that must be equal in every replica.
_SAME = ("last_offset", "leader_epoch", "size", "magic", "crc", "crc_ok")


def find(run: StoredRun) -> DataFrame:
    """Return one row for each partition whose replicas diverge: topic, partition, offset, found.

    `offset` is the first that differs.
    """
    place = ["topic", "partition"]
    replicas = in_sync(run).select(*place, "broker", "begin_offset", "end_offset")
    high_watermarks = (
        run["partition_ends"]
        .where("complete")
        .select(*place, F.col("end_offset").alias("high_watermark"))
    )
    ranges = (
        replicas.groupBy(*place)
        .agg(
            F.sort_array(F.collect_set("broker")).alias("brokers"),
            F.max("begin_offset").alias("begin"),
            F.min("end_offset").alias("least_end"),
        )
        .join(high_watermarks, place, "left")
        .select(
            *place, "brokers", "begin", F.greatest("least_end", "high_watermark").alias("until")
        )
    )
    held = (
        run["replica_batches"]
        .join(F.broadcast(replicas.select(*place, "broker")), [*place, "broker"], "left_semi")
        .join(F.broadcast(ranges), place)
        .where((F.col("last_offset") >= F.col("begin")) & (F.col("base_offset") < F.col("until")))
    )
    # Numbers only, which a hash aggregate holds: a run has millions of batches, and the details of
    # all of them do not fit into memory.
    unequal = [F.col(f"{name}_least") != F.col(f"{name}_most") for name in _SAME]
    differing = (
        held.groupBy(*place, "base_offset")
        .agg(
            F.count("*").alias("copies"),
            F.max(F.size("brokers")).alias("replicas"),
            *(F.min(name).alias(f"{name}_least") for name in _SAME),
            *(F.max(name).alias(f"{name}_most") for name in _SAME),
        )
        .where(reduce(or_, unequal, F.col("copies") != F.col("replicas")) | ~F.col("crc_ok_least"))
        .groupBy(*place)
        .agg(F.min("base_offset").alias("offset"), F.count("*").alias("batches"))
    )
    there = (
        held.withColumnRenamed("base_offset", "offset")
        .join(F.broadcast(differing), [*place, "offset"])
        .groupBy(*place, "offset", "batches")
        .agg(
            F.first("brokers").alias("brokers"),
            F.collect_list(F.struct("broker", *_SAME)).alias("there"),
        )
    )
    return there.select(*place, "offset", _description().alias("found"))


def _description() -> Column:
    """Describe what each broker holds at the first differing offset."""

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
