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
from ackproof.runs import manifest


def parts(path: Path) -> list[Path]:
    return sorted(path.rglob("*.parquet")) if path.is_dir() else [path] if path.exists() else []


@functools.cache
def _shared(run_dir: Path) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator of functions of a path, which caches results for the files of the run.

    A link to a recorded file has its number (inode).
    """
    listed = runs.read_model(run_dir, manifest.NAME, manifest.Manifest).files
    numbers = {(run_dir / file.path).stat().st_ino for file in listed}
    known: dict[tuple[Any, ...], Any] = {}

    def remembering(compute: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compute)
        def once(path: Any, *args: Any, **options: Any) -> Any:
            file = Path(path)
            if not file.is_file() or file.stat().st_ino not in numbers:
                return compute(path, *args, **options)
            key = (compute, file.stat().st_ino, *args, repr(sorted(options.items())))
            if key not in known:
                known[key] = compute(path, *args, **options)
            return known[key]

        return once

    return remembering


_explain = functools.lru_cache(maxsize=16)(trace_validation.explain)


@contextmanager
def remembered(run_dir: Path) -> Iterator[None]:
    """Cache the judge's results for the files that copies share with a recorded run."""
    remembering = _shared(run_dir)
    with ExitStack() as patches:
        for owner, name in (
            (manifest, "_size_and_digest"),
            (manifest, "_rows"),
            (pq, "read_table"),
            (pq, "read_metadata"),
        ):
            cached = remembering(getattr(owner, name))
            patches.enter_context(patch.object(owner, name, cached))
        patches.enter_context(patch.object(trace_validation, "explain", _explain))
        yield
