"""Stores tables with Spark, and checks that they can be read back.

Spark also reports success if an executor writes to its own disk instead of a shared one. So rows
are counted when they are written, and again when they are read back.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ackproof_spark.errors import AnalysisError
from ackproof_spark.spark.functions import DataFrame, F
from ackproof_spark.spark.session import driver_here
from ackproof_spark.spark.small_data import from_arrow

#: Options of a reader that takes a path literally: otherwise `[ ] { } * ?` in it are a pattern. The
#: name is private to Spark (`DataSource.GLOB_PATHS_KEY`).
LITERALLY = {"__globPaths__": "false"}
#: The scheme of an address, and of one on a local disk.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_FILE = re.compile(r"file:(//(?=/))?")


def folder_here(place: Path | str) -> Path | None:
    """Return the folder of an address on a local disk; None for another file system.

    An address without a scheme is a local path. Spark alone would take it for a path of its default
    file system, which on a cluster may be another one than that of this process. As in Hadoop, a
    path is not percent-encoded.
    """
    if isinstance(place, Path) or not _SCHEME.match(place):
        return Path(place).resolve()
    file = _FILE.match(place)
    return Path(place[file.end() :]).resolve() if file else None


def address(place: Path | str) -> str:
    """Return the URI of a local folder, or of any address that Spark knows."""
    here = folder_here(place)
    return str(place).rstrip("/") if here is None else f"file://{here}"


def store(frame: DataFrame, place: str, *, few: bool = False) -> DataFrame:
    """Write `frame` as Parquet to `place`, replacing its content; return the stored table.

    On a local disk, this process writes `few` rows itself, and returns them, unless Spark is behind
    Connect and may have another disk. Raises `AnalysisError` if not every written row can be read
    back.
    """
    if few and is_here(place) and driver_here(frame.sparkSession):
        rows = frame.toArrow()
        store_here(rows, place)
        return from_arrow(frame.sparkSession, rows, frame.schema)
    from pyspark.sql import Observation

    written = Observation("written")
    counted = frame.observe(written, F.count("*").alias("rows"))
    counted.write.mode("overwrite").parquet(place)
    stored = frame.sparkSession.read.schema(frame.schema).options(**LITERALLY).parquet(place)
    rows, there = written.get["rows"], stored.count()
    if rows != there:
        raise AnalysisError(
            f"{rows} rows were written to {place}, and {there} are there: it must be on storage "
            "that the driver and all workers share"
        )
    return stored


def is_here(place: str) -> bool:
    """Return whether an address is on a local disk."""
    return folder_here(place) is not None


def store_here(rows: pa.Table, place: str) -> None:
    """Write rows as Parquet to an address on a local disk, replacing its content."""
    folder = folder_here(place)
    assert folder is not None
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        written = Path(temporary) / folder.name
        written.mkdir()
        pq.write_table(rows, written / "part-0.parquet", write_page_checksum=True)
        shutil.rmtree(folder, ignore_errors=True)
        written.rename(folder)
