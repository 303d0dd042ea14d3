"""The temporary folders of Spark sessions, also of those whose process was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "ackproof-spark-"

#: The owner of a folder locks this file in it; the kernel frees the lock when the process ends.
_LOCK = "lock"

_locks: dict[Path, int] = {}


def create() -> Path:
    """Return a new folder, which `remove_orphans` does not delete while this process lives."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = os.open(folder / _LOCK, os.O_CREAT | os.O_WRONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    _locks[folder] = lock
    return folder


def remove(folder: Path) -> None:
    """Delete a folder of `create`."""
    shutil.rmtree(folder, ignore_errors=True)
    os.close(_locks.pop(folder))


def remove_orphans() -> int:
    """Delete the folders of processes that have ended; return their number."""
    removed = 0
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            with lock.open("a") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent)
        except OSError:  # its process lives, or it is another user's
            continue
        removed += 1
    return removed
