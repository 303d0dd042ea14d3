"""The live tables on disk: each micro-batch's rows once, however often Spark runs the batch.

A batch writes one file a table, named after it, and puts it in place whole. When Spark runs a batch
again after a restart, the same files are written anew; what this time has no rows is removed.
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
        """Take up the tables as they are, or begin with empty ones if `fresh`."""
        self._run_dir = run_dir
        self._partitions: dict[tuple[str, int], dict[str, Any]] = {}
        for name in (WINDOWS, CANDIDATES):
            folder = run_dir / LOCATION[name]
            if fresh:
                shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)
        place = run_dir / LOCATION[PARTITIONS]
        if fresh:
            place.unlink(missing_ok=True)
        elif place.exists():
            rows = pq.read_table(place).to_pylist()
            self._partitions = {(row["topic"], row["partition"]): row for row in rows}

    def write(self, batch: int, rows: Mapping[str, Sequence[pa.Table]]) -> None:
        """Store what micro-batch `batch` yielded: tables of rows, by the name of their table."""
        for name in (WINDOWS, CANDIDATES):
            path = self._run_dir / LOCATION[name] / f"batch-{batch:09d}.parquet"
            found = pa.concat_tables([SCHEMAS[name].empty_table(), *rows.get(name, ())])
            if found.num_rows:
                _put(path, found)
            else:
                path.unlink(missing_ok=True)
        for table in rows.get(PARTITIONS, ()):
            for row in table.to_pylist():
                self._partitions[row["topic"], row["partition"]] = row | {"batch": batch}
        place = self._run_dir / LOCATION[PARTITIONS]
        self._write(place, PARTITIONS, list(self._partitions.values()))

    def partitions(self) -> list[dict[str, Any]]:
        """Return the rows of `tables.LIVE_PARTITIONS`, by topic and partition."""
        return [row for _, row in sorted(self._partitions.items())]

    def _write(self, path: Path, name: str, rows: list[dict[str, Any]]) -> None:
        rows = sorted(rows, key=lambda row: (row["topic"], row["partition"]))
        _put(path, pa.Table.from_pylist(rows, schema=SCHEMAS[name]))


def _put(path: Path, table: pa.Table) -> None:
    # Hidden from Spark and DuckDB until it is whole.
    temporary = path.with_name(f"_{path.name}.tmp")
    pq.write_table(table, temporary, compression="zstd")
    temporary.replace(path)
