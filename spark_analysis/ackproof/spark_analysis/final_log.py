"""The final log: every record of every partition, as Spark's Kafka connector reads it.

Read after all faults healed and every ISR is full, from `begin_offset` up to `end_offset`, the
high watermark. Nothing of a record's value is trusted: its bytes say whether it is intact, corrupt
or foreign (`tables.RecordState`), by the same rules as `record.decode`, in the JVM.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.spark_analysis.errors import AnalysisError
from ackproof.spark_analysis.record import HEADER_SIZE, MAGIC, run_token
from ackproof.spark_analysis.tables import (
    LOCATION,
    PARTITION_ENDS,
    SCHEMA_VERSION,
    RecordState,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_HEAD_SIZE = 64

_OPTIONS = {
    # Gaps are this program's to find and to explain; the connector would stop at the first one.
    "failOnDataLoss": "false",
    # A damaged record is evidence. The client's own check would refuse its whole batch.
    "kafka.check.crcs": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEnd:
    """How far a partition can be read, as in `tables.PARTITION_ENDS`.

    The log holds `begin_offset` up to, not including, `end_offset`. `complete` is False, with a
    `reason`, if the final log holds less than that.
    """

    topic: str
    partition: int
    begin_offset: int
    end_offset: int
    complete: bool = True
    reason: str | None = None


def read_final_log(
    spark: SparkSession,
    *,
    run_id: str,
    bootstrap_servers: str,
    ends: Sequence[PartitionEnd],
    options: Mapping[str, str],
) -> DataFrame:
    """Return the records between the ends of each partition, in `tables.FINAL_LOG`'s columns.

    `options` are the connector's own (`minPartitions`, `kafka.security.protocol` …; a client
    setting is prefixed `kafka.`) and win over the ones set here. Lazy: nothing is read yet.
    """
    from pyspark.sql import functions as F  # noqa: N812

    wanted = [end for end in ends if end.end_offset > end.begin_offset]
    if not wanted:
        return parse_records(_no_records(spark), run_id=run_id)
    partitions: dict[str, list[int]] = defaultdict(list)
    starting: dict[str, dict[str, int]] = defaultdict(dict)
    ending: dict[str, dict[str, int]] = defaultdict(dict)
    for end in wanted:
        partitions[end.topic].append(end.partition)
        starting[end.topic][str(end.partition)] = end.begin_offset
        ending[end.topic][str(end.partition)] = end.end_offset
    source = (
        spark.read.format("kafka")
        .options(**_OPTIONS, minPartitions=str(spark.sparkContext.defaultParallelism))
        .options(**options)
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("assign", json.dumps(partitions))
        .option("startingOffsets", json.dumps(starting))
        .option("endingOffsets", json.dumps(ending))
    )
    try:
        records = source.load()
    except Exception as error:
        if "kafka" not in str(error).lower():
            raise
        raise AnalysisError(
            f"Spark cannot read Kafka ({_cause(error)}); if its connector is missing, fetch "
            f"it with: python -m ackproof.spark_analysis.connector"
        ) from error
    return parse_records(
        records.select("topic", "partition", "offset", F.col("timestamp"), "value"), run_id=run_id
    )


def parse_records(records: DataFrame, *, run_id: str) -> DataFrame:
    """Return `records` (topic, partition, offset, timestamp, value) as `tables.FINAL_LOG`.

    The layout of `value` is `record`'s. Without our magic: foreign. With it, but shorter than a
    header or with another checksum than it says: corrupt. Whole, but of another run: foreign.
    """
    from pyspark.sql import functions as F  # noqa: N812

    value = F.col("value")
    ours = F.substring(value, 1, 4) == F.lit(MAGIC)
    checksum = F.lpad(F.hex(F.crc32(F.substring(value, 9, 2**31 - 1))), 8, "0")
    whole = (F.length(value) >= HEADER_SIZE) & (F.hex(F.substring(value, 5, 4)) == checksum)
    of_this_run = F.substring(value, 9, 8) == F.lit(run_token(run_id))
    state = (
        F.when(value.isNull() | ~ours, RecordState.FOREIGN)
        .when(~whole, RecordState.CORRUPT)
        .when(~of_this_run, RecordState.FOREIGN)
        .otherwise(RecordState.INTACT)
    )
    intact = F.col("state") == RecordState.INTACT
    head = F.hex(F.substring(value, 1, _HEAD_SIZE))
    return records.withColumn("state", state).select(
        F.lit(SCHEMA_VERSION).alias("schema_version"),
        F.lit(run_id).alias("run_id"),
        "topic",
        "partition",
        "offset",
        F.col("timestamp").alias("written_at"),
        "state",
        F.when(intact, number(F.hex(F.substring(value, 17, 8)))).alias("producer"),
        F.when(intact, number(F.hex(F.substring(value, 25, 8)))).alias("sequence"),
        F.coalesce(F.length(value), F.lit(0)).alias("size"),
        F.when(~intact, head).alias("head"),
    )


def number(digits: Column) -> Column:
    """Return up to 16 hex digits, two's complement, big-endian, as a bigint."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.conv(digits, 16, -10).cast("bigint")


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalLog:
    """What was stored: how many records, and how far each partition was read."""

    records: int
    ends: tuple[PartitionEnd, ...]


def write_final_log(
    log: DataFrame, *, run_id: str, ends: Iterable[PartitionEnd], run_dir: Path
) -> FinalLog:
    """Store `log` and `ends` in the run directory; return the ends as they were really read.

    A partition whose last record stands before `end_offset - 1` was not read to its end: it
    becomes incomplete, with its reason. Raises `AnalysisError` if the brokers cannot be read.
    """
    from pyspark.sql import functions as F  # noqa: N812

    place = str(run_dir.resolve() / LOCATION["final_log"])
    try:
        log.write.mode("overwrite").parquet(place)
    except Exception as error:
        raise AnalysisError(
            f"the final log could not be read or stored in {place} ({_cause(error)}); "
            "are all brokers up, every partition led, and is there room on the disk?"
        ) from error
    stored = log.sparkSession.read.schema(log.schema).parquet(place)
    last = {
        (row["topic"], row["partition"]): (row["last"], row["records"])
        for row in stored.groupBy("topic", "partition")
        .agg(F.max("offset").alias("last"), F.count("*").alias("records"))
        .collect()
    }
    as_read = tuple(
        _as_read(end, last.get((end.topic, end.partition), (None, 0))[0]) for end in ends
    )
    write_partition_ends(as_read, run_id=run_id, run_dir=run_dir)
    return FinalLog(records=sum(records for _, records in last.values()), ends=as_read)


def write_partition_ends(ends: Iterable[PartitionEnd], *, run_id: str, run_dir: Path) -> None:
    """Store `ends` as the run's `tables.PARTITION_ENDS`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {
            "schema_version": SCHEMA_VERSION,
            "run_id": run_id,
            **{name: getattr(end, name) for name in PartitionEnd.__slots__},
        }
        for end in ends
    ]
    pq.write_table(
        pa.Table.from_pylist(rows, schema=PARTITION_ENDS), run_dir / LOCATION["partition_ends"]
    )


def _as_read(end: PartitionEnd, last: int | None) -> PartitionEnd:
    read_to = end.begin_offset if last is None else last + 1
    if not end.complete or read_to >= end.end_offset:
        return end
    return replace(end, complete=False, reason=f"read up to {read_to} of {end.end_offset}")


def _no_records(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(
        [], "topic string, partition int, offset bigint, timestamp timestamp, value binary"
    )


def _cause(error: Exception) -> str:
    """Return the first line of what an error really is: Java's innermost cause, if it has one."""
    java = getattr(error, "java_exception", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    said = str(error if java is None else java.toString())
    return said.strip().partition("\n")[0] or type(error).__name__
