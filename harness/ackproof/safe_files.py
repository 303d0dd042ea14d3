"""Files in folders that somebody else may have prepared, such as a run directory.

Only regular files of bounded size are read: reading a pipe may block forever, and a device such as
`/dev/zero` has no end. A file is written beside its path and renamed when it is complete. An
existing link or file of that name is replaced; the target of a link is never written.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class UnfitFileError(OSError):
    """A file is of another kind, or too large; `strerror` says so."""

    def __str__(self) -> str:
        return str(self.strerror)


def kind_of(path: Path) -> str:
    """Return `a pipe`, `a socket` or `a device`; '' for a regular file or a folder.

    Links are followed. Raises OSError if the path does not exist.
    """
    return _KINDS.get(stat.S_IFMT(path.stat().st_mode), "")


def read(path: Path, *, most: int) -> bytes:
    """Return the content of a regular file of at most `most` bytes.

    Raises UnfitFileError for any other file, IsADirectoryError for a folder, OSError if it cannot
    be read.
    """
    if kind := kind_of(path):
        raise UnfitFileError(errno.EINVAL, f"it is {kind}, not a file", str(path))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if (size := path.stat().st_size) > most:
        raise UnfitFileError(
            errno.EFBIG, f"it has {size:,} bytes, and {most:,} is the most", str(path)
        )
    return path.read_bytes()


def create(path: Path) -> None:
    """Create an empty file in place of an existing one; raise OSError for a folder."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield an empty file to write to; rename it to `path` if the block succeeds."""
    partial = path.with_name(path.name + ".partial")
    create(partial)
    yield partial
    partial.replace(path)
