"""A warehouse: its creation, version, views and queries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ackproof_spark.errors import WarehouseError
from ackproof_spark.spark.errors import explained
from ackproof_spark.spark.files import Storage
from ackproof_spark.spark.functions import SparkSession
from ackproof_spark.warehouse.formats import Format, Tables
from ackproof_spark.warehouse.schemas import TABLES, WAREHOUSE_VERSION
from ackproof_spark.warehouse.sql_files import ANALYSES, SCHEMA
from ackproof_spark.warehouse.views import script, statements

VERSION_FILE = "warehouse.json"
VIEWS_FILE = "views.sql"


@dataclass(frozen=True, kw_only=True)
class Head:
    """`warehouse.json`.

    `reports` is the address below which the run directories are published, or empty. `catalog` has
    the properties of the user's catalog for Iceberg's tables; without it they are files here.
    """

    format: Format
    version: int = WAREHOUSE_VERSION
    reports: str = ""
    catalog: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Warehouse:
    """An open warehouse of the current version; the session has the settings of its format."""

    spark: SparkSession
    tables: Tables
    head: Head

    @property
    def storage(self) -> Storage:
        return self.tables.storage

    @property
    def format(self) -> Format:
        return self.head.format

    @classmethod
    def open(cls, spark: SparkSession, location: str) -> Warehouse:
        """Return the warehouse at `location`.

        Raises `WarehouseError` if there is none, or one of another version.
        """
        storage = Storage.of(spark, location)
        head = read_head(storage)
        if head is None:
            raise WarehouseError(
                f"{location} is not a warehouse: it has no {VERSION_FILE}; load a run into it "
                "first (ackproof warehouse load RUN_DIR --into WAREHOUSE)"
            )
        return cls._of(spark, storage, head)

    @classmethod
    def create(
        cls,
        spark: SparkSession,
        location: str,
        kind: Format,
        catalog: Mapping[str, str] | None = None,
    ) -> Warehouse:
        """Create an empty warehouse of format `kind`, or return the existing one.

        Raises `WarehouseError` if the existing one has another version, format or catalog.
        """
        storage = Storage.of(spark, location)
        with storage.lock(), explained():
            head = read_head(storage)
            if head is None:
                made = cls._of(spark, storage, Head(format=kind, catalog=catalog or {}))
                made.tables.create(spark)
                made.write_head()
                return made
        if head.format is not kind:
            raise WarehouseError(
                f"{location} is a warehouse of format {head.format}, not {kind}: leave out "
                "--format, or name another folder or address"
            )
        if catalog and catalog != head.catalog:
            raise WarehouseError(
                f"{location} has its tables in the catalog {dict(head.catalog)}: leave out "
                "--catalog, or name another folder or address"
            )
        return cls._of(spark, storage, head)

    @classmethod
    def _of(cls, spark: SparkSession, storage: Storage, head: Head) -> Warehouse:
        tables = Tables(format=head.format, storage=storage, catalog=head.catalog)
        for key, value in tables.settings.items():
            spark.conf.set(key, value)
        return cls(spark=spark, tables=tables, head=head)

    def publish(self, reports: str) -> None:
        """Store the address below which the run directories are published; '' for none."""
        replace(self, head=replace(self.head, reports=reports)).write_head()

    def write_head(self) -> None:
        """Write the views, and then the version file, which makes the warehouse valid."""
        self.storage.write(VIEWS_FILE, script(self.tables, reports=self.head.reports))
        written = {
            "format": self.format.value,
            "version": self.head.version,
            "reports": self.head.reports,
            "catalog": dict(self.head.catalog),
        }
        self.storage.write(VERSION_FILE, json.dumps(written) + "\n")

    def register(self, schema: str = SCHEMA, tables_in: str = "") -> list[str]:
        """Create every view in a schema of the session's catalog; see `views.statements`."""
        with explained():
            for statement in statements(
                self.tables, reports=self.head.reports, schema=schema, tables_in=tables_in
            ):
                self.spark.sql(statement)
        return [*TABLES, *ANALYSES]

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a query over the views."""
        return self.queries({"": sql})[""]

    def queries(self, asked: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of each query over the views, which are created once for all queries."""
        with explained():
            for statement in statements(self.tables, reports=self.head.reports, schema=""):
                self.spark.sql(statement)
            return {
                name: [row.asDict() for row in self.spark.sql(sql).collect()]
                for name, sql in asked.items()
            }


def read_head(storage: Storage) -> Head | None:
    """Return the version file of the warehouse in `storage`, None if there is no warehouse.

    Raises `WarehouseError` if it is damaged, or of another version.
    """
    text = storage.read(VERSION_FILE)
    if text is None:
        return None
    try:
        read = json.loads(text)
        head = Head(
            format=Format(read["format"]),
            version=int(read["version"]),
            reports=str(read.get("reports", "")),
            catalog=dict(read.get("catalog", {})),
        )
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise WarehouseError(
            f"{storage.address}/{VERSION_FILE} is damaged: {text[:80]!r}; it should read like "
            f'{{"format": "delta", "version": {WAREHOUSE_VERSION}}}'
        ) from None
    if head.version > WAREHOUSE_VERSION:
        raise WarehouseError(
            f"{storage.address} is a warehouse of version {head.version}, and this ackproof reads "
            f"version {WAREHOUSE_VERSION}: install a newer ackproof"
        )
    if head.version < WAREHOUSE_VERSION:
        raise WarehouseError(
            f"{storage.address} is a warehouse of version {head.version}, and this ackproof writes "
            f"version {WAREHOUSE_VERSION}: load its runs into a new one (ackproof warehouse load "
            "RUN_DIR… --into WAREHOUSE)"
        )
    return head
