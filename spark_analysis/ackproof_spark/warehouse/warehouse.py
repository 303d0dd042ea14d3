"""An open warehouse: creating it, its version, its views, queries over them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ackproof_spark.errors import WarehouseError
from ackproof_spark.spark.errors import explained
from ackproof_spark.warehouse import views
from ackproof_spark.warehouse.formats import Format, Tables, frame
from ackproof_spark.warehouse.schemas import TABLES, WAREHOUSE_VERSION
from ackproof_spark.warehouse.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSION_FILE = "warehouse.json"
VIEWS_FILE = "views.sql"


@dataclass(frozen=True, kw_only=True)
class Warehouse:
    """An open warehouse of the current version; the session has the settings of its format."""

    spark: SparkSession
    storage: Storage
    tables: Tables

    @property
    def format(self) -> Format:
        """Table format."""
        return self.tables.format

    @classmethod
    def open(cls, spark: SparkSession, location: str) -> Warehouse:
        """Return the warehouse at `location`.

        Raises `WarehouseError` if there is none, or one of another version.
        """
        storage = Storage(spark, location)
        stored = read_format(storage)
        if stored is None:
            raise WarehouseError(
                f"{location} is not a warehouse: it has no {VERSION_FILE}; load a run into it "
                "first (ackproof warehouse load RUN_DIR --into WAREHOUSE)"
            )
        return cls._of(spark, storage, stored)

    @classmethod
    def create(cls, spark: SparkSession, location: str, kind: Format) -> Warehouse:
        """Create an empty warehouse of format `kind`, or return the one that exists.

        Raises `WarehouseError` as `open` does, or if the one that exists has another format.
        """
        storage = Storage(spark, location)
        with storage.lock(), explained():
            stored = read_format(storage)
            if stored is None:
                made = cls._of(spark, storage, kind)
                for name, schema in TABLES.items():
                    made.tables.create(name, frame(spark, [], schema))
                made.write_views()
                head = {"format": kind.value, "version": WAREHOUSE_VERSION}
                storage.write(VERSION_FILE, json.dumps(head) + "\n")
                return made
        if stored is not kind:
            raise WarehouseError(
                f"{location} is a warehouse of format {stored}, not {kind}: leave out --format, "
                "or name another folder or address"
            )
        return cls._of(spark, storage, stored)

    @classmethod
    def _of(cls, spark: SparkSession, storage: Storage, kind: Format) -> Warehouse:
        tables = Tables(format=kind, address=storage.address)
        for key, value in tables.settings.items():
            spark.conf.set(key, value)
        return cls(spark=spark, storage=storage, tables=tables)

    def write_views(self) -> None:
        """Write the script that creates the views."""
        self.storage.write(VIEWS_FILE, views.script(self.tables))

    def register(self, database: str) -> list[str]:
        """Create every table and analysis as a view of a database in the session's catalog."""
        with explained():
            self.spark.sql(f"CREATE DATABASE IF NOT EXISTS `{database}`")
            before = self.spark.catalog.currentDatabase()
            self.spark.catalog.setCurrentDatabase(database)
            try:
                # A temporary view of an earlier query would stand for the table of its name.
                for name in [*TABLES, *views.ANALYSES]:
                    self.spark.catalog.dropTempView(name)
                for statement in views.statements(self.tables):
                    self.spark.sql(statement)
            finally:
                self.spark.catalog.setCurrentDatabase(before)
        return [*TABLES, *views.ANALYSES]

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a query over the views."""
        return self.queries({"": sql})[""]

    def queries(self, asked: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of each query over the views, which are made once for all of them."""
        with explained():
            for statement in views.statements(self.tables, temporary=True):
                self.spark.sql(statement)
            return {
                name: [row.asDict() for row in self.spark.sql(sql).collect()]
                for name, sql in asked.items()
            }


def read_format(storage: Storage) -> Format | None:
    """Return the format of the warehouse in `storage`, None if there is no warehouse.

    Raises `WarehouseError` if its version is not the current one or its version file is damaged.
    """
    text = storage.read(VERSION_FILE)
    if text is None:
        return None
    try:
        head = json.loads(text)
        kind, version = Format(head["format"]), int(head["version"])
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise WarehouseError(
            f"{storage.address}/{VERSION_FILE} is damaged: {text[:80]!r}; it should read like "
            f'{{"format": "delta", "version": {WAREHOUSE_VERSION}}}'
        ) from None
    if version > WAREHOUSE_VERSION:
        raise WarehouseError(
            f"{storage.address} is a warehouse of version {version}, and this ackproof reads "
            f"version {WAREHOUSE_VERSION}: install a newer ackproof"
        )
    if version < WAREHOUSE_VERSION:
        raise WarehouseError(
            f"{storage.address} is a warehouse of version {version}, and this ackproof writes "
            f"version {WAREHOUSE_VERSION}: load its runs into a new one "
            "(ackproof warehouse load RUN_DIR… --into WAREHOUSE)"
        )
    return kind
