"""A warehouse: its creation, version, views, queries and text files."""

from __future__ import annotations

import contextlib
import fcntl
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ackproof_spark.errors import AnalysisError, WarehouseError
from ackproof_spark.spark.errors import explained
from ackproof_spark.spark.functions import SparkSession
from ackproof_spark.spark.session import is_connect
from ackproof_spark.warehouse.formats import ANALYSES, Format, Tables, frame, script, statements
from ackproof_spark.warehouse.schemas import TABLES, WAREHOUSE_VERSION

_LOCK = ".lock"


class Storage(ABC):
    """The files below one address; raises `AnalysisError` for every error of the file system.

    `address` is the location with its scheme, as SQL names it.
    """

    address: str

    def __init__(self, location: str) -> None:
        self._location = location

    @staticmethod
    def of(spark: SparkSession, location: str) -> Storage:
        # With Spark Connect, Hadoop's classes are in another process.
        jvm: Any = None if is_connect() else getattr(spark, "_jvm", None)
        return _ArrowFiles(location) if jvm is None else _HadoopFiles(spark, jvm, location)

    @abstractmethod
    def read(self, name: str) -> str | None:
        """Return the text of a file, None if it does not exist."""

    @abstractmethod
    def write(self, name: str, text: str) -> None:
        """Write a text file, replacing the one that exists."""

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Exclude other processes of this machine from writing to a warehouse on a local disk.

        Delta Lake and Iceberg's Hadoop catalog commit by renaming a file, which is safe between
        processes on HDFS. On a local disk it is safe between the threads of one JVM only
        (`io.delta.storage.LocalLogStore`). Elsewhere this is a no-op; for object stores see the
        formats' own pages.
        """
        parts = urlsplit(self.address)
        if parts.scheme != "file":
            yield
            return
        root = Path(unquote(parts.path))
        try:
            root.mkdir(parents=True, exist_ok=True)
            file = (root / _LOCK).open("a")
        except OSError as error:
            raise AnalysisError(
                f"{self._location} cannot be written ({error.strerror}); "
                "name another folder or address"
            ) from None
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _unusable(self, reason: object) -> AnalysisError:
        reason = str(reason).partition("\n")[0]
        return AnalysisError(
            f"{self._location} cannot be used as a warehouse ({reason}); name another folder or "
            "address"
        )


class _HadoopFiles(Storage):
    """Files by Hadoop's `FileSystem`, by which Spark reads the tables."""

    def __init__(self, spark: SparkSession, jvm: Any, location: str) -> None:
        super().__init__(location)
        self._path = jvm.org.apache.hadoop.fs.Path
        with self._errors():
            path = self._path(location)
            self._files = path.getFileSystem(spark._jsc.hadoopConfiguration())
            self.address = self._files.makeQualified(path).toString()

    def read(self, name: str) -> str | None:
        path = self._path(f"{self.address}/{name}")
        with self._errors():
            if not self._files.exists(path):
                return None
            stream = self._files.open(path)
            try:
                return bytes(stream.readAllBytes()).decode()
            finally:
                stream.close()

    def write(self, name: str, text: str) -> None:
        with self._errors():
            stream = self._files.create(self._path(f"{self.address}/{name}"), True)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        from py4j.protocol import Py4JJavaError

        try:
            yield
        except Py4JJavaError as error:
            raise self._unusable(error.java_exception.toString()) from None


class _ArrowFiles(Storage):
    """Files by Arrow's file systems, for a Spark whose JVM is elsewhere."""

    def __init__(self, location: str) -> None:
        from pyarrow import fs

        super().__init__(location)
        local = "://" not in location and not location.startswith("file:")
        self.address = Path(location).resolve().as_uri() if local else location.rstrip("/")
        with self._errors():
            # Hadoop's name of the scheme for S3.
            uri = re.sub("^s3[an]:", "s3:", self.address)
            self._files, self._root = fs.FileSystem.from_uri(uri)

    def read(self, name: str) -> str | None:
        from pyarrow import fs

        path = f"{self._root}/{name}"
        with self._errors():
            if self._files.get_file_info(path).type is fs.FileType.NotFound:
                return None
            with self._files.open_input_stream(path) as stream:
                return bytes(stream.read()).decode()

    def write(self, name: str, text: str) -> None:
        with self._errors():
            self._files.create_dir(self._root, recursive=True)
            with self._files.open_output_stream(f"{self._root}/{name}") as stream:
                stream.write(text.encode())

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except (OSError, pa.ArrowException, ValueError) as error:
            raise self._unusable(error) from None


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
        return self.tables.format

    @classmethod
    def open(cls, spark: SparkSession, location: str) -> Warehouse:
        """Return the warehouse at `location`.

        Raises `WarehouseError` if there is none, or one of another version.
        """
        storage = Storage.of(spark, location)
        stored = read_format(storage)
        if stored is None:
            raise WarehouseError(
                f"{location} is not a warehouse: it has no {VERSION_FILE}; load a run into it "
                "first (ackproof warehouse load RUN_DIR --into WAREHOUSE)"
            )
        return cls._of(spark, storage, stored)

    @classmethod
    def create(cls, spark: SparkSession, location: str, kind: Format) -> Warehouse:
        """Create an empty warehouse of format `kind`, or return the existing one.

        Raises `WarehouseError` if the existing one has another version or format.
        """
        storage = Storage.of(spark, location)
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
        self.storage.write(VIEWS_FILE, script(self.tables))

    def register(self, database: str) -> list[str]:
        """Create every table and analysis as a view of a database in the session's catalog."""
        with explained():
            self.spark.sql(f"CREATE DATABASE IF NOT EXISTS `{database}`")
            before = self.spark.catalog.currentDatabase()
            self.spark.catalog.setCurrentDatabase(database)
            try:
                # A temporary view of an earlier query would hide the table of its name.
                for name in [*TABLES, *ANALYSES]:
                    self.spark.catalog.dropTempView(name)
                for statement in statements(self.tables):
                    self.spark.sql(statement)
            finally:
                self.spark.catalog.setCurrentDatabase(before)
        return [*TABLES, *ANALYSES]

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a query over the views."""
        return self.queries({"": sql})[""]

    def queries(self, asked: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of each query over the views, which are created once for all queries."""
        with explained():
            for statement in statements(self.tables, temporary=True):
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
