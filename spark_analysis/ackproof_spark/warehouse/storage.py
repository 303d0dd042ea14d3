"""Where a warehouse lies: a folder or an address, reached as Spark itself reaches it.

Everything goes through Hadoop's `FileSystem`, so the warehouse need not lie on this machine.
"""

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
    """The files below one address; paths are relative to it.

    Raises `AnalysisError` wherever the file system refuses.
    """

    def __init__(self, spark: SparkSession, place: str) -> None:
        self._jvm: Any = getattr(spark, "_jvm", None)
        if self._jvm is None:
            raise AnalysisError(
                "a warehouse is not written by Spark Connect, which gives no way to the file "
                "system; use --master local[*] or spark://HOST:PORT"
            )
        self._place = place
        self._settings = spark._jsc.hadoopConfiguration()
        with self._refusals():
            path = self._jvm.org.apache.hadoop.fs.Path(place)
            self._files = path.getFileSystem(self._settings)
            #: The whole address, with its scheme: what SQL names.
            self.address: str = self._files.makeQualified(path).toString()

    def exists(self, name: str) -> bool:
        """Return whether there is such a file or folder."""
        with self._refusals():
            return bool(self._files.exists(self._path(name)))

    def read(self, name: str) -> str:
        """Return a text file."""
        with self._refusals():
            stream = self._files.open(self._path(name))
            try:
                return bytes(stream.readAllBytes()).decode()
            finally:
                stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a text file whole or not at all."""
        contexts = self._jvm.org.apache.hadoop.fs.FileContext
        overwrite = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename").OVERWRITE
        with self._refusals():
            partial = self._path(f"{name}.partial")
            stream = self._files.create(partial, True)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()
            how = self._array(overwrite)
            context = contexts.getFileContext(partial.toUri(), self._settings)
            context.rename(partial, self._path(name), how)

    def folders(self, name: str) -> list[str]:
        """Return the names of the folders in a folder; none if it is not there."""
        with self._refusals():
            if not self._files.exists(self._path(name)):
                return []
            found = self._files.listStatus(self._path(name))
            return sorted(each.getPath().getName() for each in found if each.isDirectory())

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with everything in it; no-op if it is not there."""
        with self._refusals():
            self._files.delete(self._path(name), True)

    def move(self, name: str, to: str) -> None:
        """Give a folder a new name that nothing has yet."""
        with self._refusals():
            if not self._files.rename(self._path(name), self._path(to)):
                raise AnalysisError(f"{self.address}/{name} cannot be renamed to {to}")

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes of this machine from writing here at the same time.

        Delta Lake's log on a local disk is safe between the threads of one JVM only
        (`io.delta.storage.LocalLogStore` looks, then renames). Elsewhere this is a no-op: HDFS
        renames without overwriting; of object stores see Delta Lake's page on storage.
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
                f"{self._place} cannot be written ({error.strerror}); name another place"
            ) from None
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.address}/{name}")

    def _array(self, value: Any) -> Any:
        from pyspark import SparkContext

        kind = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        array = SparkContext._gateway.new_array(kind, 1)
        array[0] = value
        return array

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        from py4j.protocol import Py4JJavaError

        try:
            yield
        except Py4JJavaError as error:
            said = error.java_exception.toString().partition("\n")[0]
            raise AnalysisError(
                f"{self._place} cannot be used as a warehouse ({said}); name another place"
            ) from None
