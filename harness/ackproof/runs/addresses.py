"""A run directory at any address that Spark knows, such as ``s3a://bucket/runs/x``.

This process reads and writes files in folders. A run that is not on a local disk is therefore
copied into a temporary folder, and what is written there is copied to the address. Spark reads and
writes tables at the address itself, on whatever machines it runs.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.errors import AckproofError, RunDirectoryError
from ackproof.runs import manifest
from ackproof.spark_session import spark_session
from ackproof_spark.spark import scratch
from ackproof_spark.spark.session import use_for
from ackproof_spark.spark.storage import folder_here
from ackproof_spark.tables import LOCATION

if TYPE_CHECKING:
    from ackproof_spark.spark.files import Storage

#: Files that are copied at the same time.
_AT_ONCE = 8

#: Written last: a reader that finds it finds the other results, too.
_LAST = "verdict.json"


def is_elsewhere(place: str) -> bool:
    """Whether this is an address that is not on a local disk."""
    return folder_here(place) is None


def path(place: str) -> Path:
    """Return a local path, also one that is given as ``file:``."""
    given, here = Path(place), folder_here(place)
    return given if here is None or here == given.resolve() else here


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedRun:
    """A run directory.

    `folder`: where this process reads and writes. `address`: where Spark does; the same folder if
    the run is on a local disk.
    """

    folder: Path
    address: Path | str
    _files: Storage | None = None
    #: Size and time of each file of the folder that is the same at the address.
    _same: dict[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def here(cls, folder: Path) -> OpenedRun:
        return cls(folder=folder, address=folder)

    def fetch(self, *tables: str) -> None:
        """Copy tables that Spark has written. Raises SparkError."""
        if self._files is None:
            return
        for table in tables:
            place = LOCATION[table].as_posix()
            shutil.rmtree(self.folder / place, ignore_errors=True)
            self._copy([f"{place}/{name}" for name in self._files.files(place)])

    def store(self) -> None:
        """Copy what this process has written to the address. Raises SparkError."""
        if self._files is None:
            return
        stamps = self._stamps()
        changed = [name for name, stamp in stamps.items() if self._same.get(name) != stamp]
        with spark_session():
            for name in sorted(changed, key=lambda name: name == _LAST):
                self._files.write(name, (self.folder / name).read_bytes())
        self._same.update(stamps)

    def _copy(self, names: list[str]) -> None:
        assert self._files is not None
        for name in names:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        with spark_session(), ThreadPoolExecutor(_AT_ONCE) as pool:
            paths = [self.folder / name for name in names]
            list(pool.map(self._files.fetch, names, paths))
        self._same.update(self._stamps())

    def _stamps(self) -> dict[str, tuple[int, int]]:
        return {
            path.relative_to(self.folder).as_posix(): (path.stat().st_size, path.stat().st_mtime_ns)
            for path in self.folder.rglob("*")
            if path.is_file()
        }


@contextmanager
def opened(address: str, *, tables: bool = True) -> Iterator[OpenedRun]:
    """Yield the run at an address that is not on a local disk; copied only without its `tables`.

    Errors name the address. Raises RunDirectoryError if there is no run whose recording has ended,
    SparkError if the address cannot be read.
    """
    from ackproof_spark.spark.files import Storage

    use_for(address)
    with spark_session() as spark:
        files = Storage.of(spark, address)
        names = files.files("")
    if not names:
        raise RunDirectoryError(
            f"{address}: no such run directory", hint="Name a run directory in its parent."
        )
    if "run.json" in names and manifest.NAME not in names:
        raise RunDirectoryError(
            f"{address} has no {manifest.NAME}, so its recording did not end",
            hint="Check it on the machine that recorded it, and copy it afterwards.",
        )
    if not tables:
        folders = {location.parts[0] for location in LOCATION.values() if not location.suffix}
        names = [name for name in names if name.partition("/")[0] not in folders]
    temporary = scratch.create()
    folder = temporary / address.rstrip("/").rpartition("/")[2]
    folder.mkdir()
    try:
        run = OpenedRun(folder=folder, address=address, _files=files)
        run._copy(names)
        yield run
    except AckproofError as error:
        message, hint = (text.replace(str(folder), address) for text in (error.message, error.hint))
        raise type(error)(message, hint=hint) from error
    finally:
        scratch.remove(temporary)
