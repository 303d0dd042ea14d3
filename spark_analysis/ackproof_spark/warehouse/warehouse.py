"""A warehouse as a thing: opened, created, and asked what is in it."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ackproof_spark.errors import WarehouseError
from ackproof_spark.spark.errors import explained
from ackproof_spark.warehouse import views
from ackproof_spark.warehouse.formats import (
    Format,
    append_schema,
    frame,
    source,
)
from ackproof_spark.warehouse.schemas import TABLES, WAREHOUSE_VERSION
from ackproof_spark.warehouse.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERSION_FILE = "warehouse.json"
VIEWS_FILE = "views.sql"

_LOAD_ID = "load-%Y%m%dT%H%M%S.%fZ"


@dataclass(frozen=True, kw_only=True)
class Warehouse:
    """An open warehouse of the current version."""

    spark: SparkSession
    storage: Storage
    format: Format

    @classmethod
    def open(cls, spark: SparkSession, place: str) -> Warehouse:
        """Return the warehouse at `place`.

        Raises `WarehouseError` if there is none, or none of this version.
        """
        storage = Storage(spark, place)
        head = read_head(storage)
        if head is None:
            raise WarehouseError(
                f"{place} is not a warehouse: it has no {VERSION_FILE}; load a run into it first "
                "(ackproof warehouse load RUN_DIR --into PLACE)"
            )
        if head.version < WAREHOUSE_VERSION:
            raise WarehouseError(
                f"{place} is a warehouse of version {head.version}, this ackproof writes version "
                f"{WAREHOUSE_VERSION}; bring it up with: ackproof warehouse migrate {place}"
            )
        return cls(spark=spark, storage=storage, format=head.format)

    @classmethod
    def create(cls, spark: SparkSession, place: str, kind: Format) -> Warehouse:
        """Make an empty warehouse of format `kind` at `place`, or return the one that is there.

        Raises `WarehouseError` as `open` does, or if the one that is there has another format.
        """
        storage = Storage(spark, place)
        with storage.lock(), explained():
            if read_head(storage) is None:
                made = cls(spark=spark, storage=storage, format=kind)
                for name, schema in TABLES.items():
                    append_schema(storage, kind, name, frame(spark, [], schema))
                made.write_views()
                write_head(storage, Head(format=kind, version=WAREHOUSE_VERSION))
                return made
        found = cls.open(spark, place)
        if found.format is not kind:
            raise WarehouseError(
                f"{place} is a warehouse of format {found.format}, not {kind}: leave out --format, "
                "or name another place"
            )
        return found

    def write_views(self) -> None:
        """Write the script that creates the views."""
        self.storage.write(VIEWS_FILE, views.script(self.storage, self.format))

    def create_views(self) -> None:
        """Have every view in this Spark session, as temporary views."""
        for statement in views.statements(self.storage, self.format, temporary=True):
            self.spark.sql(statement)

    def pointers(self) -> DataFrame:
        """Return every row of `runs`, superseded ones too; in Parquet, with its `batch`."""
        return self.spark.sql(f"SELECT * FROM {source(self.storage, self.format, 'runs')}")  # noqa: S608

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a query over the views."""
        with explained():
            self.create_views()
            return [row.asDict() for row in self.spark.sql(sql).collect()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What `warehouse.json` says; `migrating_to` is set while `migrations` changes tables."""

    format: Format
    version: int
    migrating_to: int | None = None


def read_head(storage: Storage) -> Head | None:
    """Return what a warehouse says of itself, None if there is none.

    Raises `WarehouseError` if it is of a version that this ackproof does not know.
    """
    if not storage.exists(VERSION_FILE):
        return None
    text = storage.read(VERSION_FILE)
    try:
        said = json.loads(text)
        head = Head(
            format=Format(said["format"]),
            version=int(said["version"]),
            migrating_to=said.get("migrating_to"),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise WarehouseError(
            f"{storage.address}/{VERSION_FILE} is damaged: {text[:80]!r}; it should read like "
            f'{{"format": "delta", "version": {WAREHOUSE_VERSION}}}'
        ) from None
    if not 1 <= head.version <= WAREHOUSE_VERSION:
        raise WarehouseError(
            f"{storage.address} is a warehouse of version {head.version}; this ackproof knows "
            f"versions 1 to {WAREHOUSE_VERSION}: install a newer one"
        )
    return head


def write_head(storage: Storage, head: Head) -> None:
    """Write what makes a folder a warehouse."""
    said = {key: value for key, value in asdict(head).items() if value is not None}
    storage.write(VERSION_FILE, json.dumps(said) + "\n")


def new_load_id(now: datetime | None = None) -> str:
    """Return the name of a load; names sort by time."""
    return f"{(now or datetime.now(tz=UTC)).strftime(_LOAD_ID)}-{secrets.token_hex(4)}"
