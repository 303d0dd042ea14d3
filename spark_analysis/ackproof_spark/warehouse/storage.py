"""Text files beside the tables, read and written by Hadoop's `FileSystem` as the tables are."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from ackproof_spark.errors import AnalysisError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCK = ".lock"


class Storage:
    """The files below one address; raises `AnalysisError` for every error of the file system."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        jvm: Any = getattr(spark, "_jvm", None)
        if jvm is None:
            raise AnalysisError(
                "a warehouse cannot be used through Spark Connect, which gives no access to the "
                "file system; `ackproof warehouse` runs Spark in its own process"
            )
        self._location = location
        self._path = jvm.org.apache.hadoop.fs.Path
        with self._errors():
            path = self._path(location)
            self._files = path.getFileSystem(spark._jsc.hadoopConfiguration())
            #: The address with its scheme, as SQL names it.
            self.address: str = self._files.makeQualified(path).toString()

    def read(self, name: str) -> str | None:
        """Return the text of a file, None if there is no such file."""
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
        """Write a text file, replacing the one that exists."""
        with self._errors():
            stream = self._files.create(self._path(f"{self.address}/{name}"), True)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()

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

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        from py4j.protocol import Py4JJavaError

        try:
            yield
        except Py4JJavaError as error:
            reason = error.java_exception.toString().partition("\n")[0]
            raise AnalysisError(
                f"{self._location} cannot be used as a warehouse ({reason}); "
                "name another folder or address"
            ) from None
