"""Reads the tables of a run directory in batches; notes missing and damaged files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ackproof_spark.tables import LOCATION, TIME

Numbers = NDArray[np.int64]

#: Null in the result of `int64`.
ABSENT = int(np.iinfo(np.int64).min)

_BATCH = 1 << 18
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class StoredTables:
    """`missing` has a sentence for each missing or damaged file."""

    directory: Path
    missing: list[str] = field(default_factory=list)

    def files(self, name: str) -> list[Path]:
        """Return the files of a table in order; empty if it is missing."""
        path = self.directory / LOCATION[name]
        if path.is_dir():
            return sorted(
                file
                for file in path.rglob("*.parquet")
                if not any(part.startswith(("_", ".")) for part in file.relative_to(path).parts)
            )
        return [path] if path.is_file() else []

    def note(self, sentence: str) -> None:
        if sentence not in self.missing:
            self.missing.append(sentence)

    def note_absence(self, name: str) -> bool:
        """Return whether the table is missing, and note it."""
        if self.files(name):
            return False
        self.note(f"{LOCATION[name]}: missing.")
        return True

    def batches(self, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows in a stable order; damaged files are noted and skipped."""
        for file in self.files(name):
            inside = file.relative_to(self.directory)
            try:
                with pq.ParquetFile(file) as parquet:
                    lacking = sorted(set(columns) - set(parquet.schema_arrow.names))
                    if lacking:
                        self.note(f"{inside}: lacks {', '.join(lacking)}.")
                        continue
                    for batch in parquet.iter_batches(batch_size=_BATCH, columns=list(columns)):
                        yield _in_utc_micros(batch)
            except (pa.ArrowException, OSError) as error:
                first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
                self.note(f"{inside}: cannot be read ({first_line})")

    def rows(self, name: str, columns: Sequence[str]) -> list[dict[str, Any]]:
        return [row for batch in self.batches(name, columns) for row in batch.to_pylist()]


def _in_utc_micros(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Cast times to the type of the schemas; Spark may write INT96, in UTC."""
    for index, column in enumerate(batch.schema):
        if pa.types.is_timestamp(column.type) and column.type != TIME:
            times = batch.column(index).cast(TIME, safe=False)
            batch = batch.set_column(index, column.with_type(TIME), times)
    return batch


def int64(column: pa.Array | pa.ChunkedArray) -> Numbers:
    """Convert a column of integers or times (to microseconds); null becomes `ABSENT`."""
    integers = column.cast(pa.int64()).fill_null(ABSENT)
    return np.asarray(integers.to_numpy(), dtype=np.int64)


def moment_of(micros: int | None) -> datetime | None:
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)
