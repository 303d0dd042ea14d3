"""Bringing an older warehouse to the current version, one version at a time.

A migration is a function for each table that changes: from its rows to those of the next version.
All changed tables are written aside first; then `warehouse.json` says so; then they take the place
of the old ones. A migration that was killed is done again, or, once all is written, finished.
No load may run meanwhile: on a local disk the lock sees to that, elsewhere whoever migrates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ackproof_spark.errors import WarehouseError
from ackproof_spark.spark.errors import explained
from ackproof_spark.warehouse.formats import Format, append_schema, source
from ackproof_spark.warehouse.schemas import BIG, WAREHOUSE_VERSION
from ackproof_spark.warehouse.storage import Storage
from ackproof_spark.warehouse.warehouse import (
    VERSION_FILE,
    Head,
    Warehouse,
    read_head,
    write_head,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ASIDE = "_migrating"

Step = Callable[["DataFrame"], "DataFrame"]


def _runs_2(rows: DataFrame) -> DataFrame:
    """Add the commit, which nobody recorded, and the availability, which can be computed."""
    from pyspark.sql import functions as F  # noqa: N812

    share = F.lit(1.0) - F.col("unavailability_s") / F.nullif("duration_s", F.lit(0.0))
    return rows.withColumns({"commit": F.lit(None).cast("string"), "availability": share})


#: By the version that a migration starts from.
MIGRATIONS: Mapping[int, Mapping[str, Step]] = {1: {"runs": _runs_2}}


def migrate(spark: SparkSession, place: str) -> tuple[int, int]:
    """Bring the warehouse at `place` to this ackproof's version; return the old and the new one.

    Raises `WarehouseError` if there is no warehouse, or a newer one, or it cannot be written.
    """
    storage = Storage(spark, place)
    if read_head(storage) is None:
        raise WarehouseError(f"{place} is not a warehouse: it has no {VERSION_FILE}")
    with explained(), storage.lock():
        head = read_head(storage)
        assert head is not None
        for version in range(head.version, WAREHOUSE_VERSION):
            if head.migrating_to != version + 1:
                _write_aside(spark, storage, head.format, version)
                aside = Head(format=head.format, version=version, migrating_to=version + 1)
                write_head(storage, aside)
            _swap(storage)
            write_head(storage, Head(format=head.format, version=version + 1))
        Warehouse(spark=spark, storage=storage, format=head.format).write_views()
    return head.version, WAREHOUSE_VERSION


def _write_aside(spark: SparkSession, storage: Storage, kind: Format, version: int) -> None:
    """Write every table that changes, as it will be, beside those that are there."""
    from pyspark.sql import functions as F  # noqa: N812

    storage.delete(_ASIDE)
    for name, step in MIGRATIONS[version].items():
        old = spark.sql(f"SELECT * FROM {source(storage, kind, name)}")  # noqa: S608
        new = step(old).withColumn("schema_version", F.lit(version + 1).cast("int"))
        place = f"{storage.address}/{_ASIDE}/{name}"
        if kind is Format.PARQUET:
            new.write.partitionBy("batch").parquet(place)
            append_schema(storage, kind, f"{_ASIDE}/{name}", new.drop("batch").limit(0))
        else:
            writer = new.write.format("delta")
            (writer.partitionBy("run_id") if name in BIG else writer).save(place)


def _swap(storage: Storage) -> None:
    """Put what was written aside in its place; done again, it goes on where it ended."""
    for name in storage.folders(_ASIDE):
        storage.delete(name)
        storage.move(f"{_ASIDE}/{name}", to=name)
    storage.delete(_ASIDE)
