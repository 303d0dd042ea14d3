"""Files at any address that Spark knows: of a warehouse, or of a run."""

from __future__ import annotations

import contextlib
import fcntl
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ackproof_spark.errors import AnalysisError
from ackproof_spark.spark.arrow_files import arrow_files, hadoop_settings
from ackproof_spark.spark.errors import cause, meaning
from ackproof_spark.spark.functions import SparkSession
from ackproof_spark.spark.storage import address, folder_here, is_here

_LOCK = ".lock"


class Storage(ABC):
    """The files below one address; raises `AnalysisError` for every error of the file system.

    `address` is the location with its scheme, as SQL names it. All paths are below it.
    """

    address: str

    def __init__(self, location: str) -> None:
        self._location = location

    @staticmethod
    def of(spark: SparkSession, location: str) -> Storage:
        # With Spark Connect, Hadoop's classes are in another process.
        jvm: Any = None if is_here(location) else getattr(spark, "_jvm", None)
        return ArrowFiles(location) if jvm is None else HadoopFiles(spark, jvm, location)

    @abstractmethod
    def read(self, name: str) -> str | None:
        """Return the text of a file, None if it does not exist."""

    @abstractmethod
    def write(self, name: str, content: str | bytes) -> None:
        """Write a file, replacing the one that exists."""

    @abstractmethod
    def files(self, folder: str) -> list[str]:
        """Return the paths in a folder of all files in it and below it; [] if it is missing."""

    @abstractmethod
    def move(self, source: str, target: str) -> None:
        """Move a file, creating the folder of `target`."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file, or a folder with everything in it; a missing one is no error."""

    @abstractmethod
    def fetch(self, name: str, to: Path) -> None:
        """Copy a file to the local disk."""

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Exclude other processes of this machine from writing to a warehouse on a local disk.

        Delta Lake and Iceberg's Hadoop catalog commit by renaming a file, which is safe between
        processes on HDFS. On a local disk it is safe between the threads of one JVM only
        (`io.delta.storage.LocalLogStore`). Elsewhere this is a no-op; for object stores see the
        formats' own pages.
        """
        root = folder_here(self.address)
        if root is None:
            yield
            return
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

    def _unusable(self, reason: object, failure: object = "") -> AnalysisError:
        """Return the error with a remedy for the whole `failure`, by default for its reason."""
        reason = str(reason).partition("\n")[0]
        remedy = meaning(str(failure) or reason) or "name another folder or address"
        return AnalysisError(f"{self._location} cannot be used ({reason}); {remedy}")


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


class HadoopFiles(Storage):
    """Files by Hadoop's `FileSystem`, by which Spark reads the tables."""

    def __init__(self, spark: SparkSession, jvm: Any, location: str) -> None:
        super().__init__(location)
        self._path = jvm.org.apache.hadoop.fs.Path
        with self._errors():
            path = self._path(location)
            self._files = path.getFileSystem(hadoop_settings(spark))
            self.address = self._files.makeQualified(path).toString()

    def _at(self, name: str) -> Any:
        return self._path(f"{self.address}/{name}")

    def read(self, name: str) -> str | None:
        path = self._at(name)
        with self._errors():
            if not self._files.exists(path):
                return None
            stream = self._files.open(path)
            try:
                return bytes(stream.readAllBytes()).decode()
            finally:
                stream.close()

    def write(self, name: str, content: str | bytes) -> None:
        with self._errors():
            stream = self._files.create(self._at(name), True)
            try:
                stream.write(bytearray(_bytes(content)))
            finally:
                stream.close()

    def files(self, folder: str) -> list[str]:
        path, names = self._at(folder), []
        with self._errors():
            if not self._files.exists(path):
                return []
            start = len(self._files.makeQualified(path).toString()) + 1
            listed = self._files.listFiles(path, True)
            while listed.hasNext():
                names.append(listed.next().getPath().toString()[start:])
        return names

    def move(self, source: str, target: str) -> None:
        with self._errors():
            path = self._at(target)
            self._files.mkdirs(path.getParent())
            if not self._files.rename(self._at(source), path):
                raise self._unusable(f"{source} could not be renamed to {target}")

    def delete(self, path: str) -> None:
        with self._errors():
            self._files.delete(self._at(path), True)

    def fetch(self, name: str, to: Path) -> None:
        with self._errors():  # `True`: without a file of checksums beside it
            self._files.copyToLocalFile(False, self._at(name), self._path(to.as_uri()), True)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        from py4j.protocol import Py4JJavaError

        try:
            yield
        except Py4JJavaError as error:
            raise self._unusable(cause(error), failure=error) from None


class ArrowFiles(Storage):
    """Files by Arrow's file systems: on a local disk, or if Spark's JVM is elsewhere."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.address = address(location)
        with self._errors():
            self._files, self._root = arrow_files(None, location)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def read(self, name: str) -> str | None:
        from pyarrow import fs

        path = self._at(name)
        with self._errors():
            if self._files.get_file_info(path).type is fs.FileType.NotFound:
                return None
            with self._files.open_input_stream(path) as stream:
                return bytes(stream.read()).decode()

    def write(self, name: str, content: str | bytes) -> None:
        with self._errors():
            path = self._at(name)
            self._files.create_dir(path.rpartition("/")[0], recursive=True)
            with self._files.open_output_stream(path) as stream:
                stream.write(_bytes(content))

    def files(self, folder: str) -> list[str]:
        from pyarrow import fs

        path = self._at(folder)
        with self._errors():
            listed = self._files.get_file_info(
                fs.FileSelector(path, allow_not_found=True, recursive=True)
            )
        return [each.path[len(path) + 1 :] for each in listed if each.type is fs.FileType.File]

    def move(self, source: str, target: str) -> None:
        with self._errors():
            self._files.create_dir(self._at(target).rpartition("/")[0], recursive=True)
            self._files.move(self._at(source), self._at(target))

    def delete(self, path: str) -> None:
        from pyarrow import fs

        path = self._at(path)
        with self._errors():
            match self._files.get_file_info(path).type:
                case fs.FileType.Directory:
                    self._files.delete_dir(path)
                case fs.FileType.File:
                    self._files.delete_file(path)

    def fetch(self, name: str, to: Path) -> None:
        from pyarrow import fs

        with self._errors():
            fs.copy_files(self._at(name), str(to), source_filesystem=self._files)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except (OSError, pa.ArrowException, ValueError) as error:
            raise self._unusable(error) from None
