"""Store tables with Spark, and prove that they can be read back.

An executor may write to its own disk instead of a shared one, and Spark reports success. So rows
are counted while they are written, and again when they are read back.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ackproof_spark.errors import AnalysisError
from ackproof_spark.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def address(place: Path | str) -> str:
    """Return the URI of `place`: a folder of this machine, or as text any address that Spark knows.

    A folder becomes a `file:` URI, because a cluster's default file system may be another one.
    """
    return f"file://{place.resolve()}" if isinstance(place, Path) else place.rstrip("/")


def store(frame: DataFrame, place: str) -> DataFrame:
    """Write `frame` as Parquet to `place`, replacing what is there; return the stored table.

    Raises `AnalysisError` if not every row that was written can be read back.
    """
    from pyspark.sql import Observation

    written = Observation("written")
    counted = frame.observe(written, F.count("*").alias("rows"))
    counted.write.mode("overwrite").parquet(place)
    stored = frame.sparkSession.read.schema(frame.schema).parquet(place)
    rows, there = written.get["rows"], stored.count()
    if rows != there:
        raise AnalysisError(
            f"{rows} rows were written to {place}, and {there} are there: it must be on storage "
            "that the driver and all workers share"
        )
    return stored
