"""Text files beside the tables, on the file system of the tables."""

from __future__ import annotations

import contextlib
import fcntl
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from ackproof_spark.errors import AnalysisError
from ackproof_spark.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCK = ".lock"


class Files(Protocol):
    """Text files of one file system; errors are `AnalysisError`."""

    #: The address with its scheme, as SQL names it.
    address: str

    def read(self, name: str) -> str | None:
        """Return the text of a file, None if there is no such file."""

    def write(self, name: str, text: str) -> None:
        """Write a text file, replacing the one that exists."""


class Storage:
    """The files below one address; raises `AnalysisError` for every error of the file system."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        # The driver of Spark Connect is another process: Hadoop's classes are out of reach.
        jvm: Any = None if is_connect() else getattr(spark, "_jvm", None)
        self._location = location
        self._files: Files = (
            _ArrowFiles(location) if jvm is None else _HadoopFiles(spark, jvm, location)
        )
        self.address = self._files.address
        self.read = self._files.read
        self.write = self._files.write

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


class _HadoopFiles:
    """Files by Hadoop's `FileSystem`, as Spark itself reads the tables."""

    def __init__(self, spark: SparkSession, jvm: Any, location: str) -> None:
        self._location = location
        self._path = jvm.org.apache.hadoop.fs.Path
        with self._errors():
            path = self._path(location)
            self._files = path.getFileSystem(spark._jsc.hadoopConfiguration())
            self.address: str = self._files.makeQualified(path).toString()

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
            reason = error.java_exception.toString().partition("\n")[0]
            raise _unusable(self._location, reason) from None


class _ArrowFiles:
    """Files by Arrow's file systems, for a Spark whose JVM is elsewhere."""

    def __init__(self, location: str) -> None:
        from pyarrow import fs

        self._location = location
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
            raise _unusable(self._location, str(error).partition("\n")[0]) from None


def _unusable(location: str, reason: str) -> AnalysisError:
    return AnalysisError(
        f"{location} cannot be used as a warehouse ({reason}); name another folder or address"
    )
