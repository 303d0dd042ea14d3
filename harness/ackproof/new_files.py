"""Files that are written beside their place first, and take it when they are complete.

A run directory may come from somebody else. What is there under a name that is written, such as a
link to a file elsewhere, is removed or replaced; nothing is written through it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def create(path: Path) -> None:
    """Create an empty file in place of what is there. Raises OSError, for example of a folder."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield an empty file to write to; rename it to `path` once the block has ended well."""
    partial = path.with_name(path.name + ".partial")
    create(partial)
    yield partial
    partial.replace(path)
