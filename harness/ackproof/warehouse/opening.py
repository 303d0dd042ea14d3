"""Opening a warehouse, in a Spark session with the jars of its format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ackproof.errors import translated
from ackproof_spark.spark.storage import folder_here
from ackproof_spark.warehouse.formats import Format

if TYPE_CHECKING:
    from ackproof_spark.spark.functions import SparkSession
    from ackproof_spark.warehouse.warehouse import Head, Warehouse


def address(location: str) -> str:
    """Return a warehouse's address; local paths become absolute."""
    return str(folder_here(location) or location)


def has_jars(kind: Format) -> bool:
    from ackproof_spark.spark.connector import Package, jars

    return kind is Format.PARQUET or bool(jars(Package(kind.value)))


def default_format() -> Format:
    """Return Delta Lake if its jars were fetched, else Parquet.

    With Spark Connect it is Parquet, because the server has its own jars.
    """
    from ackproof_spark.spark.session import is_connect

    return Format.DELTA if has_jars(Format.DELTA) and not is_connect() else Format.PARQUET


def format_here(location: str) -> Format | None:
    """Return the format of a warehouse on a local disk, without Spark; None if there is none."""
    from ackproof_spark.spark.files import ArrowFiles
    from ackproof_spark.warehouse.warehouse import read_head

    if folder_here(location) is None:
        return None
    with translated():
        head = read_head(ArrowFiles(location))
    return head.format if head else None


@contextmanager
def opened(
    location: str,
    *,
    create: bool = False,
    kind: Format | None = None,
    catalog: Mapping[str, str] | None = None,
) -> Iterator[Warehouse]:
    """Yield the warehouse at an address, in a Spark session with the jars of its format.

    With `create` a missing warehouse is created in format `kind` (None: `default_format`). Raises
    WarehouseError if the address has no warehouse, or a warehouse of another format; SparkError if
    Spark fails.
    """
    from ackproof_spark.warehouse.warehouse import Warehouse

    with _session(location, kind) as (spark, stored):
        if create:
            chosen = kind or (stored.format if stored else default_format())
            yield Warehouse.create(spark, location, chosen, catalog)
        else:
            yield Warehouse.open(spark, location)


def use_jars(location: str, kind: Format | None) -> None:
    """Let the session have the jars of every format and of the address.

    The format is not known yet. Adding jars later would restart Spark. Raises AnalysisError if
    those of `kind` are missing.
    """
    from ackproof_spark.spark.connector import Package
    from ackproof_spark.spark.session import is_connect, use, use_for

    for known in (Format.DELTA, Format.ICEBERG):
        if not is_connect() and (has_jars(known) or known is kind):
            use(Package(known.value))
    use_for(location)


@contextmanager
def _session(location: str, kind: Format | None) -> Iterator[tuple[SparkSession, Head | None]]:
    """Yield a session with the jars of the warehouse's format, and its version file."""
    from ackproof_spark.spark.connector import Package
    from ackproof_spark.spark.files import Storage
    from ackproof_spark.spark.session import is_connect, session, use
    from ackproof_spark.warehouse.warehouse import read_head

    with translated():
        use_jars(location, kind)
        stored = read_head(Storage.of(session(), location))
        if stored is not None and not has_jars(stored.format) and not is_connect():
            use(Package(stored.format.value))  # raises an error with the command that fetches them
        yield session(), stored
