"""Checks the files of a recorded table against the definition of its columns.

A checked table has the right names, types and required values, and times within Python's range. If
a file has statistics, only these are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof.errors import RunDirectoryError
from ackproof_spark import tables
from ackproof_spark.tables import SCHEMA_VERSION, TIME

#: Keys of tables in which a second row with the same key would count twice.
_KEYS = {"partition_ends": ("topic", "partition"), "fault_windows": ("window",)}

#: Tables with times from records, which may have any value.
_DATED_BY_RECORDS = ("final_log", "disagreements")

_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1)
_EARLIEST, _LATEST = ((end - _EPOCH) // _MICROSECOND for end in (datetime.min, datetime.max))


def check(path: Path, table: str, run_id: str) -> None:
    """Raise RunDirectoryError unless a file has the table's columns, and rows of this run only."""
    if other := distinct(path, "schema_version") - {SCHEMA_VERSION}:
        raise RunDirectoryError(
            f"{path} has rows of a table of schema version {', '.join(map(str, other))}; this "
            f"ackproof reads version {SCHEMA_VERSION}",
            hint="Read it with the ackproof that wrote it.",
        )
    if other := distinct(path, "run_id") - {run_id}:
        raise RunDirectoryError(
            f"{path} has rows of another run ({', '.join(map(str, sorted(other, key=str)))}), "
            f"and run.json is of the run {run_id}",
            hint="Judge the directory as it was recorded: restore the file from a copy.",
        )
    schema = tables.SCHEMAS[table]
    with open_file(path) as file:
        wrong = [*_column_problems(file, table, schema)] or [
            *_value_problems(path, file, table, schema)
        ]
    if wrong:
        raise RunDirectoryError(
            f"{path} is not a valid table {table}: {'; '.join(wrong)}",
            hint="Judge the directory as it was recorded: restore the file from a copy.",
        )


def open_file(path: Path) -> pq.ParquetFile:
    """Open a Parquet file. Raises RunDirectoryError if it is damaged."""
    with _readable(path):
        return pq.ParquetFile(path)


def distinct(path: Path, name: str) -> set[Any]:
    """Return the values of a column; of a row group with statistics only minimum and maximum.

    Raises RunDirectoryError if the file is damaged or has no such column.
    """
    with open_file(path) as file:
        names = file.schema_arrow.names
        if name not in names:
            raise RunDirectoryError(f"{path} has no column {name}, so it is not a run's table")
        values: set[Any] = set()
        for group in range(file.metadata.num_row_groups):
            column = file.metadata.row_group(group).column(names.index(name))
            statistics = column.statistics
            if statistics is not None and statistics.has_min_max and not statistics.null_count:
                values |= {statistics.min, statistics.max}
            else:
                values |= set(pc.unique(_column(path, file, name, group)).to_pylist())
    return values


def _column_problems(file: pq.ParquetFile, table: str, schema: pa.Schema) -> Iterator[str]:
    names = file.schema_arrow.names
    for field in schema:
        count = names.count(field.name)
        if count != 1:
            number = f"{count} columns" if count else "no column"
            yield f"it has {number} {field.name}"
            continue
        actual = file.schema_arrow.field(field.name).type
        if actual != field.type:
            yield f"its column {field.name} is of type {actual}, not {field.type}"


def _value_problems(
    path: Path, file: pq.ParquetFile, table: str, schema: pa.Schema
) -> Iterator[str]:
    for field in schema:
        if field.name not in file.schema_arrow.names:
            continue
        if not field.nullable and _has_nulls(path, file, field.name):
            yield f"its column {field.name} has rows without a value"
        if field.type == TIME and table not in _DATED_BY_RECORDS:
            least, greatest = _extremes(path, file, field.name)
            if least < _EARLIEST or greatest > _LATEST:
                yield f"its column {field.name} has a time outside the years 1 to 9999"
    if table in _KEYS:
        key = list(_KEYS[table])
        with _readable(path):
            rows = file.read(columns=key)
        if len(rows.group_by(key).aggregate([])) < len(rows):
            yield f"it has more than one row of the same {' and '.join(key)}"


def _has_nulls(path: Path, file: pq.ParquetFile, name: str) -> bool:
    index = file.schema_arrow.names.index(name)  # also the index of the leaf: no nested structs
    stored = file.schema.column(index)
    if stored.max_definition_level == 0:
        return False  # the column is required
    for group in range(file.metadata.num_row_groups):
        statistics = file.metadata.row_group(group).column(index).statistics
        if stored.max_repetition_level or statistics is None or not statistics.has_null_count:
            nulls = _column(path, file, name, group).null_count
        else:
            nulls = statistics.null_count
        if nulls:
            return True
    return False


def _extremes(path: Path, file: pq.ParquetFile, name: str) -> tuple[int, int]:
    """Return the earliest and latest time of a column and 1970, in microseconds since 1970."""
    index = file.schema_arrow.names.index(name)
    ends = [0]
    for group in range(file.metadata.num_row_groups):
        statistics = file.metadata.row_group(group).column(index).statistics
        if statistics is not None and statistics.has_min_max:
            ends += [statistics.min_raw, statistics.max_raw]
        else:
            times = _column(path, file, name, group).cast(pa.int64()).drop_null()
            ends += [time for time in pc.min_max(times).as_py().values() if time is not None]
    return min(ends), max(ends)


def _column(path: Path, file: pq.ParquetFile, name: str, group: int) -> pa.ChunkedArray:
    with _readable(path):
        return file.read_row_group(group, columns=[name])[name]


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise RunDirectoryError(f"{path} is damaged or cut short: {error}") from None
