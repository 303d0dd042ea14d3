"""Raw records of Kafka as the columns of the final log, evaluated in the JVM."""

from __future__ import annotations

from ackproof_spark.record import HEADER_SIZE, MAGIC, run_token
from ackproof_spark.spark.functions import Column, DataFrame, F
from ackproof_spark.tables import SCHEMA_VERSION, RecordState

_HEAD_SIZE = 64

#: The columns of raw records, and those that identify an application's records.
RECORD_COLUMNS = "topic string, partition int, offset bigint, timestamp timestamp, value binary"
IDENTITY_COLUMNS = "key binary, headers array<struct<key: string, value: binary>>"


def parse_records(records: DataFrame, *, run_id: str) -> DataFrame:
    """Return `records` (topic, partition, offset, timestamp, value) as `tables.FINAL_LOG`.

    `record` defines the layout of `value`. Without ackproof's magic bytes a record is foreign; with
    them, but shorter than a header or with a wrong checksum, it is corrupt; intact but of another
    run, it is foreign.
    """
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
    return F.conv(digits, 16, -10).cast("bigint")
