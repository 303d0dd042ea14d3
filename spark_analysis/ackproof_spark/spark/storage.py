"""Tables as Spark stores them: under an address it can read, and proven to be there.

An executor writes to its own disk as gladly as to a shared one, and Spark calls both a success. So
what was written is counted while it is written, and again where it is read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ackproof_spark.errors import AnalysisError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def address(place: Path | str) -> str:
    """Return what Spark calls `place`: a folder of this machine, or as text any address it knows.

    A cluster's default file system may be another one: a folder says that it is none of that.
    """
    return f"file://{place.resolve()}" if isinstance(place, Path) else place.rstrip("/")


def store(frame: DataFrame, place: str) -> DataFrame:
    """Write `frame` as Parquet to `place`, replacing what is there; return it as it stands there.

    Raises `AnalysisError` if not every row that was written can be read back.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812

    written = Observation("written")
    counted = frame.observe(written, F.count("*").alias("rows"))
    counted.write.mode("overwrite").parquet(place)
    stored = frame.sparkSession.read.schema(frame.schema).parquet(place)
    rows, there = written.get["rows"], stored.count()
    if rows != there:
        raise AnalysisError(
            f"{rows} rows were written to {place}, and {there} stand there: it must be on storage "
            "that the driver and all workers share"
        )
    return stored
