"""A cache of results for a recorded run's files, used while copies of the run are judged.

A copy links to the files that it does not change. Results that depend only on the content of such a
file (its digest, its rows, the replay of a metadata log) are computed once. A file that a copy
changed is a new file, without cached results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq

from ackproof.judgement import trace_validation
from ackproof.runs import directory as runs
from ackproof.runs import manifest, table_files


def parts(path: Path) -> list[Path]:
    return sorted(path.rglob("*.parquet")) if path.is_dir() else [path] if path.exists() else []


class SharedFiles:
    """The recorded files of a run, and the results for them."""

    def __init__(self, run_dir: Path) -> None:
        listed = runs.read_model(run_dir, manifest.NAME, manifest.Manifest).files
        self._numbers = {(run_dir / file.path).stat().st_ino for file in listed}
        self._known: dict[tuple[Any, ...], Any] = {}

    def holds(self, path: Path) -> bool:
        """Whether `path` is a file of the run, or a link to one."""
        return path.stat().st_ino in self._numbers

    def remembering(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        """Return `compute`, a function of a path, cached for the files of the run."""

        @functools.wraps(compute)
        def once(path: Any, *args: Any, **options: Any) -> Any:
            file = Path(path)
            if not file.is_file() or not self.holds(file):
                return compute(path, *args, **options)
            key = (compute, file.stat().st_ino, *args, repr(sorted(options.items())))
            if key not in self._known:
                self._known[key] = compute(path, *args, **options)
            return self._known[key]

        return once


_explain = functools.lru_cache(maxsize=16)(trace_validation.explain)


@functools.cache
def _shared_files(run_dir: Path) -> SharedFiles:
    return SharedFiles(run_dir)


@contextmanager
def remembered(run_dir: Path) -> Iterator[None]:
    """Cache the judge's results for the files that copies share with a recorded run."""
    files = _shared_files(run_dir)
    with ExitStack() as patches:
        for owner, name in (
            (manifest, "_size_and_digest"),
            (table_files, "constants"),
            (table_files, "problems"),
            (manifest, "_rows"),
            (pq, "read_table"),
            (pq, "read_metadata"),
        ):
            patches.enter_context(
                patch.object(owner, name, files.remembering(getattr(owner, name)))
            )
        patches.enter_context(patch.object(trace_validation, "explain", _explain))
        yield
