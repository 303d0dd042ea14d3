"""The reading of ackproof's own reader beside Spark's connector: first into files, then in Spark.

Reading into files needs no Spark, so both readers read at the same time. Nothing that one of them
returns reaches the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof_spark.errors import AnalysisError
from ackproof_spark.reading.application_records import Application
from ackproof_spark.reading.final_log import (
    IDENTITY_COLUMNS,
    RECORD_COLUMNS,
    Isolation,
    PartitionEnd,
    as_final_log,
    range_options,
)
from ackproof_spark.spark.storage import address

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def fetch(
    folder: Path,
    *,
    bootstrap_servers: str,
    ends: Sequence[PartitionEnd],
    options: Mapping[str, str],
    isolation: Isolation,
    headers: bool,
) -> None:
    """Read all records by ackproof's own reader and without Spark, into files for `fetched`.

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
    """Return the records that `fetch` has read, in `tables.FINAL_LOG`'s columns."""
    schema = RECORD_COLUMNS if application is None else f"{RECORD_COLUMNS}, {IDENTITY_COLUMNS}"
    records = spark.read.schema(schema).parquet(address(folder))
    return as_final_log(records, application, run_id=run_id)
