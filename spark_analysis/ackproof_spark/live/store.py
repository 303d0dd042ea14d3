"""The live tables on disk, with the rows of each micro-batch exactly once.

A micro-batch writes one file a table, named after the batch, and renames it when it is complete.
When Spark runs a batch again after a restart, it replaces the files of that batch.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ackproof_spark.tables import (
    LIVE_PARTITIONS,
    LIVE_WINDOWS,
    LOCATION,
    LOSS_CANDIDATES,
)

WINDOWS = "live_windows"
CANDIDATES = "loss_candidates"
PARTITIONS = "live_partitions"

SCHEMAS = {WINDOWS: LIVE_WINDOWS, CANDIDATES: LOSS_CANDIDATES, PARTITIONS: LIVE_PARTITIONS}


class LiveTables:
    """The live tables of one run; raises OSError if they cannot be written."""

    def __init__(self, run_dir: Path, *, fresh: bool) -> None:
        """Continue the tables that exist, or start with empty ones if `fresh`."""
        self._run_dir = run_dir
        self._partitions: dict[tuple[str, int], dict[str, Any]] = {}
        for name in (WINDOWS, CANDIDATES):
            folder = run_dir / LOCATION[name]
            if fresh:
                shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)
        path = run_dir / LOCATION[PARTITIONS]
        if fresh:
            path.unlink(missing_ok=True)
        elif path.exists():
            rows = pq.read_table(path).to_pylist()
            self._partitions = {(row["topic"], row["partition"]): row for row in rows}

    def write(self, batch: int, rows: Mapping[str, Sequence[pa.Table]]) -> None:
        """Store the rows of micro-batch `batch`, by the name of their table."""
        for name in (WINDOWS, CANDIDATES):
            path = self._run_dir / LOCATION[name] / f"batch-{batch:09d}.parquet"
            whole = pa.concat_tables([SCHEMAS[name].empty_table(), *rows.get(name, ())])
            if whole.num_rows:
                _put(path, whole)
            else:
                path.unlink(missing_ok=True)
        for table in rows.get(PARTITIONS, ()):
            for row in table.to_pylist():
                self._partitions[row["topic"], row["partition"]] = row | {"batch": batch}
        table = pa.Table.from_pylist(self.partitions(), schema=LIVE_PARTITIONS)
        _put(self._run_dir / LOCATION[PARTITIONS], table)

    def partitions(self) -> list[dict[str, Any]]:
        """Return the rows of `tables.LIVE_PARTITIONS`, by topic and partition."""
        return [row for _, row in sorted(self._partitions.items())]


def _put(path: Path, table: pa.Table) -> None:
    # The leading `_` hides it from Spark and DuckDB until it is complete.
    temporary = path.with_name(f"_{path.name}.tmp")
    pq.write_table(table, temporary, compression="zstd")
    temporary.replace(path)
