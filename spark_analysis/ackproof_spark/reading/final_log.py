"""The final log: every record of every partition, as Spark reads it from Kafka.

It is read after all faults healed and every ISR is full, from `begin_offset` up to `end_offset`,
the high watermark. Expressions in the JVM classify each record as intact, corrupt or foreign
(`tables.RecordState`), by the same rules as `record.decode`.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path

from ackproof_spark.errors import AnalysisError, ConnectorMissing
from ackproof_spark.reading import application_records
from ackproof_spark.reading.application_records import Application
from ackproof_spark.reading.record_columns import (
    IDENTITY_COLUMNS,
    RECORD_COLUMNS,
    parse_records,
)
from ackproof_spark.reading.run_tables import PARTITION
from ackproof_spark.record import END_MARKER
from ackproof_spark.spark.errors import explained
from ackproof_spark.spark.functions import Column, DataFrame, F, SparkSession
from ackproof_spark.spark.small_data import from_arrow
from ackproof_spark.spark.storage import address, store
from ackproof_spark.tables import (
    LOCATION,
    PARTITION_ENDS,
    SCHEMA_VERSION,
)

#: Up to this many offsets, ackproof's own reader reads in this process.
_SMALL = 200_000

#: Spark's messages for a missing connector: in this process, and by Spark Connect.
_NO_SOURCE = re.compile(r"DATA_SOURCE_NOT_FOUND|Failed to find (?:the )?data source: kafka")

_NO_CONNECTOR = (
    "this Spark lacks its Kafka connector; fetch it with: "
    "python -m ackproof_spark.spark.connector (a cluster takes it by its Maven coordinates, "
    "see docs/reference/spark.md)"
)


#: Offsets that one task reads, approximately.
_OFFSETS_OF_A_TASK = 500_000

_OPTIONS = {
    # The connector would stop at the first gap; the checks explain gaps.
    "failOnDataLoss": "false",
    # A damaged record is evidence. The client's own check would reject its whole batch.
    "kafka.check.crcs": "false",
}

#: After each poll the connector asks for the partition's bounds. The broker answers after the next
#: fetch, which would wait half a second at the end of the partition.
_CONNECTOR_OPTIONS = {"kafka.fetch.max.wait.ms": "10"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEnd:
    """The range of a partition that can be read, as in `tables.PARTITION_ENDS`.

    `end_offset` is exclusive. `complete` is False, with a `reason`, if the final log lacks a part.
    """

    topic: str
    partition: int
    begin_offset: int
    end_offset: int
    complete: bool = True
    reason: str | None = None


class Reader(StrEnum):
    """A reader of Kafka; the value is the name of its Spark data source."""

    CONNECTOR = "kafka"
    PYTHON = "ackproof-kafka"


class Isolation(StrEnum):
    """Kafka's `isolation.level`.

    With `READ_COMMITTED` the log ends at the last stable offset (LSO), not at the high watermark,
    and records of aborted transactions are gaps.
    """

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


def read_final_log(
    spark: SparkSession,
    *,
    run_id: str,
    bootstrap_servers: str,
    ends: Sequence[PartitionEnd],
    options: Mapping[str, str],
    reader: Reader = Reader.CONNECTOR,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> DataFrame:
    """Return the records of these ranges, which have ackproof's header, as `tables.FINAL_LOG`.

    `options` are options of the reader (`minPartitions`, or a setting of its client, prefixed
    `kafka.`); they override those set here. Reading is lazy, except that ackproof's own reader
    reads a small log at once. Raises `AnalysisError` if this Spark has no such reader.
    """
    records = read_records(
        spark,
        bootstrap_servers=bootstrap_servers,
        ends=ends,
        options={"kafka.isolation.level": isolation.value, **options},
        reader=reader,
    )
    return parse_records(records, run_id=run_id)


def as_final_log(records: DataFrame, application: Application | None, *, run_id: str) -> DataFrame:
    if application is not None:
        return application_records.named(records, application, run_id=run_id)
    return parse_records(records, run_id=run_id)


def range_options(bootstrap_servers: str, ends: Iterable[PartitionEnd]) -> dict[str, str]:
    """Return the options of a reader for these ranges."""
    partitions: dict[str, list[int]] = defaultdict(list)
    starting: dict[str, dict[str, int]] = defaultdict(dict)
    ending: dict[str, dict[str, int]] = defaultdict(dict)
    for end in ends:
        if end.end_offset > end.begin_offset:
            partitions[end.topic].append(end.partition)
            starting[end.topic][str(end.partition)] = end.begin_offset
            ending[end.topic][str(end.partition)] = end.end_offset
    return {
        "kafka.bootstrap.servers": bootstrap_servers,
        "assign": json.dumps(partitions),
        "startingOffsets": json.dumps(starting),
        "endingOffsets": json.dumps(ending),
    }


def read_records(
    spark: SparkSession,
    *,
    bootstrap_servers: str,
    ends: Sequence[PartitionEnd],
    options: Mapping[str, str],
    reader: Reader = Reader.CONNECTOR,
) -> DataFrame:
    """Return raw records, as `read_final_log` does: topic, partition, offset, timestamp, value.

    With the option `includeHeaders` also `key`, and `headers`: an array of key and value, or null.
    """
    columns, schema = ["topic", "partition", "offset", "timestamp", "value"], RECORD_COLUMNS
    if options.get("includeHeaders", "").lower() == "true":
        columns += ["key", "headers"]
        schema += f", {IDENTITY_COLUMNS}"
    nonempty = [end for end in ends if end.end_offset > end.begin_offset]
    if not nonempty:
        return spark.createDataFrame([], schema)
    offsets = sum(end.end_offset - end.begin_offset for end in nonempty)
    tasks = max(offsets // _OFFSETS_OF_A_TASK + 1, len(nonempty))
    settings = {
        **_OPTIONS,
        **(_CONNECTOR_OPTIONS if reader is Reader.CONNECTOR else {}),
        "minPartitions": str(tasks),
        **options,
        **range_options(bootstrap_servers, nonempty),
    }
    if reader is Reader.PYTHON:
        from ackproof_spark.reading import kafka_source

        if offsets <= _SMALL:
            try:
                return from_arrow(spark, kafka_source.read_here(settings)).select(columns)
            except ConnectionError as error:
                raise AnalysisError(str(error)) from error
        kafka_source.register(spark)
    with explained():
        try:
            records = spark.read.format(reader.value).options(**settings).load().select(columns)
            _ = records.schema  # Spark Connect would report a missing connector only later
        except Exception as error:
            if reader is Reader.CONNECTOR and _NO_SOURCE.search(str(error)):
                raise ConnectorMissing(_NO_CONNECTOR) from error
            raise
    return records


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalLog:
    """The stored `log`, its number of records, and the range read of each partition."""

    log: DataFrame
    records: int
    ends: tuple[PartitionEnd, ...]


def take_final_log(
    spark: SparkSession,
    *,
    run_id: str,
    bootstrap_servers: str,
    ends: Sequence[PartitionEnd],
    run_dir: Path | str,
    options: Mapping[str, str],
    reader: Reader = Reader.CONNECTOR,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    application: Application | None = None,
    end_markers: bool = True,
) -> FinalLog:
    """Read the final log, as `read_final_log` does, and store it (`write_final_log`).

    Each partition must have an end marker of the harness at its `end_offset`, which is read and not
    stored. If it was read, a gap before it has only transaction markers and aborted records. A
    partition whose marker was not read is read again from its last record on. Without
    `end_markers`, each partition must have a record at `end_offset - 1`.
    """
    from pyspark.sql import Observation

    isolated = {"kafka.isolation.level": isolation.value}
    markers = Observation()
    marked = [end for end in ends if end_markers and end.end_offset > end.begin_offset]

    read = partial(read_records, spark, bootstrap_servers=bootstrap_servers, reader=reader)

    def between(gaps: Sequence[PartitionEnd]) -> DataFrame:
        return read(ends=[_with_marker(gap) for gap in gaps], options={**isolated, **options})

    headers = {"includeHeaders": "true"} if application else {}
    records = read(
        ends=[_with_marker(end) if end in marked else end for end in ends],
        options={**isolated, **headers, **options},
    )
    if marked:
        is_marker = _is_marker(marked)
        records = records.observe(markers, F.count_if(is_marker).alias("read")).where(~is_marker)
    taken = write_final_log(
        as_final_log(records, application, run_id=run_id),
        run_id=run_id,
        ends=ends,
        run_dir=run_dir,
        to_the_end=lambda: bool(marked) and markers.get["read"] == len(marked),
        between=between if end_markers else None,
    )
    if application is not None:
        undecidable = application_records.undecidable(
            read(ends=ends, options={**isolated, **headers, **options}),
            taken.log,
            application,
            ends={(end.topic, end.partition): end.end_offset for end in ends},
            proven_ends=end_markers,
            run_id=run_id,
        )
        store(undecidable, f"{address(run_dir)}/{LOCATION['undecidable']}")
    return taken


def write_final_log(
    log: DataFrame,
    *,
    run_id: str,
    ends: Sequence[PartitionEnd],
    run_dir: Path | str,
    to_the_end: Callable[[], bool] = lambda: False,
    between: Callable[[Sequence[PartitionEnd]], DataFrame] | None = None,
) -> FinalLog:
    """Store `log` and `ends` in the run directory; return the ends that were actually read.

    A partition whose last record is before `end_offset - 1` is incomplete, unless `to_the_end`
    (called when the log is stored) returns true, or `between` (which reads the rest up to and
    including `end_offset`) returns only the record at `end_offset`. `run_dir` is a folder, or an
    address as text. Raises `AnalysisError` if the brokers cannot be read, or if stored rows cannot
    be read back.
    """
    place = f"{address(run_dir)}/{LOCATION['final_log']}"
    try:
        with explained():
            stored = store(log, place)
    except AnalysisError as error:
        raise AnalysisError(
            f"the final log could not be read or stored in {place}: {error}; "
            "check that all brokers run, every partition has a leader and the disk has space"
        ) from error
    read_to = {(end.topic, end.partition): end.begin_offset for end in ends}
    records = 0
    last_and_count = F.max("offset").alias("last"), F.count("*").alias("records")
    for row in stored.groupBy(*PARTITION).agg(*last_and_count).collect():
        read_to[row["topic"], row["partition"]] = row["last"] + 1
        records += row["records"]
    gaps = [
        replace(end, begin_offset=read_to[end.topic, end.partition])
        for end in ends
        if end.complete and read_to[end.topic, end.partition] < end.end_offset
    ]
    if gaps and to_the_end():
        gaps = []
    if gaps and between is not None:
        gaps = _with_records(gaps, between(gaps))
    short = {(gap.topic, gap.partition): gap for gap in gaps}
    as_read = tuple(_as_read(end, short.get((end.topic, end.partition))) for end in ends)
    write_partition_ends(as_read, run_id=run_id, run_dir=run_dir, spark=log.sparkSession)
    return FinalLog(log=stored, records=records, ends=as_read)


def write_partition_ends(
    ends: Iterable[PartitionEnd], *, run_id: str, run_dir: Path | str, spark: SparkSession
) -> None:
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
    table = pa.Table.from_pylist(rows, schema=PARTITION_ENDS)
    if isinstance(run_dir, Path):
        pq.write_table(table, run_dir / LOCATION["partition_ends"])
    else:
        place = f"{address(run_dir)}/{LOCATION['partition_ends']}"
        from_arrow(spark, table).coalesce(1).write.mode("overwrite").parquet(place)


def _with_marker(end: PartitionEnd) -> PartitionEnd:
    return replace(end, end_offset=end.end_offset + 1)


def _is_marker(ends: Iterable[PartitionEnd]) -> Column:
    """Whether a raw record is the end marker of one of these ends. Never null."""
    at_end = F.struct("topic", "partition", "offset").isin(
        *(
            F.struct(
                F.lit(end.topic),
                F.lit(end.partition).cast("int"),
                F.lit(end.end_offset).cast("bigint"),
            )
            for end in ends
        )
    )
    # Compare the bytes first: with many partitions `at_end` costs more.
    return F.when(F.col("value") == F.lit(END_MARKER), at_end).otherwise(False)


def _with_records(gaps: Sequence[PartitionEnd], rest: DataFrame) -> list[PartitionEnd]:
    """Return the gaps that have records or could not be read."""
    with explained():
        rows = rest.groupBy(*PARTITION).agg(F.min("offset").alias("next")).collect()
    following = {(row["topic"], row["partition"]): row["next"] for row in rows}
    return [gap for gap in gaps if following.get((gap.topic, gap.partition)) != gap.end_offset]


def _as_read(end: PartitionEnd, gap: PartitionEnd | None) -> PartitionEnd:
    if gap is None:
        return end
    reason = f"read up to {gap.begin_offset} of {end.end_offset}"
    return replace(end, complete=False, reason=reason)
