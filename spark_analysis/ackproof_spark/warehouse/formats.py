"""How a warehouse stores its tables: as Delta Lake tables, or as folders of Parquet files.

Both only ever append, so loads need not know of each other. In Parquet each write has a folder of
its own, `batch=<id>`, because Spark's committer lets two writers of one folder delete each
other's files. A batch is a load, or what `compact` made of many.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

import pyarrow as pa

from ackproof_spark.spark.arrow_frames import from_arrow
from ackproof_spark.warehouse.schemas import BIG
from ackproof_spark.warehouse.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BATCH = "batch="

#: Batches without a row, that keep a table's columns known; never deleted.
_SCHEMA = "schema-"


class Format(StrEnum):
    """What a warehouse's tables are."""

    DELTA = "delta"
    PARQUET = "parquet"


def frame(spark: SparkSession, rows: Iterable[dict[str, object]], schema: pa.Schema) -> DataFrame:
    """Return rows as a frame of a schema."""
    table = pa.Table.from_pylist(list(rows), schema=schema)
    return from_arrow(spark, table)


def source(storage: Storage, kind: Format, table: str) -> str:
    """Return what SQL selects from."""
    return f"{kind}.`{storage.address}/{table}`"


def append(storage: Storage, kind: Format, table: str, rows: DataFrame, *, batch: str) -> None:
    """Add rows to a table."""
    place = f"{storage.address}/{table}"
    if kind is Format.PARQUET:
        rows.write.parquet(f"{place}/{_BATCH}{batch}")
        return
    writer = rows.write.format("delta").mode("append")
    # The two big tables are read a run at a time.
    (writer.partitionBy("run_id") if table in BIG else writer).save(place)


def append_schema(storage: Storage, kind: Format, table: str, columns: DataFrame) -> None:
    """Make a table known by its columns: append an empty frame."""
    append(storage, kind, table, columns, batch=f"{_SCHEMA}{secrets.token_hex(4)}")


def batches(storage: Storage, table: str) -> list[str]:
    """Return the batches of a Parquet table that hold rows, or did."""
    names = [name.removeprefix(_BATCH) for name in storage.folders(table) if _BATCH in name]
    return [name for name in names if not name.startswith(_SCHEMA)]


def delete_batch(storage: Storage, table: str, batch: str) -> None:
    """Delete a batch of a Parquet table."""
    storage.delete(f"{table}/{_BATCH}{batch}")
