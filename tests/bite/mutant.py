"""A changed copy of a recorded run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ackproof.runs import directory as runs
from ackproof.runs import manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    run_dir: Path
    what: str


def copy(run_dir: Path, to: Path) -> Path:
    """Link the recorded files into `to`; mutants replace files, and do not write to them."""
    wanted = {file.path for file in recorded_manifest(run_dir).files} | {manifest.NAME}
    for name in wanted:
        target = to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.hardlink_to(run_dir / name)
    return to


def recorded_manifest(run_dir: Path) -> manifest.Manifest:
    return runs.read_model(run_dir, manifest.NAME, manifest.Manifest)


def replace(path: Path, content: bytes) -> None:
    path.unlink()  # it is a link to the recorded file
    path.write_bytes(content)


def write(path: Path, table: pa.Table, **how: Any) -> None:
    path.unlink()
    pq.write_table(table, path, **how)
