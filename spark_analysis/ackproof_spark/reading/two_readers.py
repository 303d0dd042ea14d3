"""Compares the final logs of two independent readers.

The readers share no code (`kafka_source`). If they agree, a missing record is not the fault of a
reader. If they disagree, the record proves nothing.

    orders-0 offset 5, connector: sequence 5        ackproof-kafka: sequence 5      agreed
    orders-0 offset 6, connector: nothing           ackproof-kafka: sequence 6      <- one row
    orders-0 offset 7, connector: sequence 7        ackproof-kafka: corrupt         <- two rows

ackproof's own reader reads into files, without Spark, so both readers can read at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ackproof_spark.errors import AnalysisError
from ackproof_spark.reading.application_records import Application
from ackproof_spark.reading.final_log import (
    Isolation,
    PartitionEnd,
    as_final_log,
    range_options,
)
from ackproof_spark.reading.record_columns import IDENTITY_COLUMNS, RECORD_COLUMNS
from ackproof_spark.reading.run_tables import PARTITION
from ackproof_spark.spark.functions import DataFrame, F, SparkSession, union
from ackproof_spark.spark.storage import LITERALLY, address, store
from ackproof_spark.tables import DISAGREEMENTS, FINAL_LOG, LOCATION


def fetch(
    folder: Path,
    *,
    bootstrap_servers: str,
    ends: Sequence[PartitionEnd],
    options: Mapping[str, str],
    isolation: Isolation,
    headers: bool,
) -> None:
    """Read all records with ackproof's own reader, into files for `fetched`.

    Raises `AnalysisError` if the brokers cannot be read.
    """
    from ackproof_spark.reading import kafka_source

    settings = {
        "kafka.isolation.level": isolation.value,
        "includeHeaders": str(headers),
        **options,
        **range_options(bootstrap_servers, ends),
    }
    try:
        kafka_source.fetch(settings, folder)
    except ConnectionError as error:
        raise AnalysisError(str(error)) from error


def fetched(
    spark: SparkSession, folder: Path, *, run_id: str, application: Application | None = None
) -> DataFrame:
    """Return the records of `fetch`, in `tables.FINAL_LOG`'s columns."""
    schema = RECORD_COLUMNS if application is None else f"{RECORD_COLUMNS}, {IDENTITY_COLUMNS}"
    records = spark.read.schema(schema).options(**LITERALLY).parquet(address(folder))
    return as_final_log(records, application, run_id=run_id)


def disagreements(readings: dict[str, DataFrame]) -> DataFrame | None:
    """Return the records that the readers read differently, as `tables.DISAGREEMENTS`, or None.

    `readings` has two final logs by the names of their readers. Each partition is first reduced to
    a few numbers, without a shuffle; only partitions whose numbers differ are compared record by
    record.
    """
    digests = _digests(readings)
    one, other = readings
    apart = [
        f"{topic}-{partition}"
        for topic, partition in digests[one].keys() | digests[other].keys()
        if digests[one].get((topic, partition)) != digests[other].get((topic, partition))
    ]
    if not apart:
        return None
    disputed = F.concat_ws("-", *PARTITION).isin(apart)
    first, second = (log.select(FINAL_LOG.names).where(disputed) for log in readings.values())
    return (
        first.exceptAll(second)
        .withColumn("reader", F.lit(one))
        .unionByName(second.exceptAll(first).withColumn("reader", F.lit(other)))
        .select(DISAGREEMENTS.names)
    )


def store_disagreements(readings: dict[str, DataFrame], *, run_dir: Path | str) -> None:
    """Store the disagreements as a table of the run, if there are any.

    Raises `AnalysisError` if a reader returned other records when it read a second time.
    """
    found = disagreements(readings)
    if found is None:
        return
    place = f"{address(run_dir)}/{LOCATION['disagreements']}"
    if store(found, place).isEmpty():
        raise AnalysisError(
            f"{' or '.join(readings)} read the same offsets twice and got different records"
        )


def _digests(readings: dict[str, DataFrame]) -> dict[str, dict[tuple[str, int], tuple[int, ...]]]:
    """Return by reader and partition numbers that do not depend on the order of records."""
    record = F.xxhash64(*(F.col(name) for name in FINAL_LOG.names)).alias("record")
    logs = [
        log.select(F.lit(reader).alias("reader"), *PARTITION, record)
        for reader, log in readings.items()
    ]
    rows = (
        union(logs)
        .groupBy("reader", *PARTITION)
        .agg(
            F.count("*"),
            F.bit_xor("record"),
            # A record read twice cancels out in the xor above. Sums of 32 bits stay in range.
            F.sum(F.col("record").bitwiseAND(F.lit(0xFFFFFFFF))),
        )
        .collect()
    )
    counts: dict[str, dict[tuple[str, int], tuple[int, ...]]] = {name: {} for name in readings}
    for reader, topic, partition, *numbers in rows:
        counts[reader][topic, partition] = tuple(numbers)
    return counts
