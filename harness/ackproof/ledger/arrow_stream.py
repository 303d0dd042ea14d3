"""Append-only Arrow IPC streams of a client process, which survive a SIGKILL.

A stream is a schema message and then record batches, each appended by one write(2). Written batches
survive the end of the process; an incomplete batch at the end is dropped. (They are not fsynced: a
power loss of the host would end the run anyway.) During a run
`<table>/_<process>.arrows` contains one process's rows of a table; `close` converts it to
`<process>.parquet`. The leading `_` hides it from Spark and DuckDB.

The writer holds a lock on its stream, which the kernel frees with the process: a client briefly
outlives a killed harness, and the conversion must wait for its last writes.

The modules of this package that client processes use import `pyarrow.compute` and `pyarrow.parquet`
where they convert streams, which clients never do: both take a tenth of the time of a start.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from ackproof import safe_files
from ackproof.errors import DiskError, RunDirectoryError
from ackproof_spark.ledger_stream import END_OF_STREAM
from ackproof_spark.tables import LOCATION, SCHEMA_VERSION, TIME

#: LZ4 costs about as much as writing the bytes that it saves. Threads would slow down the client.
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)

_SUFFIX = ".arrows"

#: Rows of one Parquet row group.
_ROW_GROUP = 1_000_000


class StreamWriter:
    """Appends record batches of one schema to a new file.

    Every method that writes raises `DiskError`, with the noun `what`; earlier batches stay
    readable.
    """

    def __init__(self, path: Path, schema: pa.Schema, *, what: str) -> None:
        self.path = path
        self._what = what
        self._message = io.BytesIO()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
            with contextlib.suppress(OSError):  # a filesystem without locks
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise self._disk_error(error) from error
        self._stream = pa.ipc.new_stream(self._message, schema, options=_OPTIONS)

    def append(self, batch: pa.RecordBatch) -> None:
        self._stream.write_batch(batch)
        self._flush()

    def close(self) -> None:
        self._stream.close()
        self._flush()
        os.close(self._fd)

    def _flush(self) -> None:
        rest = memoryview(self._message.getvalue())
        try:
            while rest:
                # On a full disk, write(2) first writes less than asked for, and then raises ENOSPC.
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            raise self._disk_error(error) from error
        self._message.seek(0)
        self._message.truncate()

    def _disk_error(self, error: OSError) -> DiskError:
        return DiskError(
            f"{self._what} {self.path} cannot be written: {error.strerror}",
            hint="Free space there, or write runs to another folder. Everything recorded so far "
            "can still be read.",
        )


def in_use(run_dir: Path) -> list[Path]:
    """Return the streams whose writers still run."""
    return [path for path in sorted(run_dir.rglob(f"_*{_SUFFIX}")) if _is_locked(path)]


def _is_locked(path: Path) -> bool:
    try:
        with path.open("r+b") as stream:
            fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in {errno.EACCES, errno.EAGAIN}
    return False


@contextlib.contextmanager
def damage_reported(path: Path) -> Iterator[None]:
    """Turn errors of reading a damaged stream into `RunDirectoryError`."""
    try:
        yield
    except (
        *(pa.ArrowException, KeyError, IndexError, TypeError, AttributeError),
        *(ValueError, OverflowError, RecursionError),
    ) as error:
        raise RunDirectoryError(f"{path} is damaged: {error!r}") from None


class StreamReader:
    """Reads a stream batch by batch, up to the first incomplete message.

    `schema` is None if the schema message is incomplete. After all batches are read, `closed` is
    True if the writer has closed the stream. Raises RunDirectoryError if there is no file to read.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._source = pa.OSFile(str(path))
        except OSError as error:
            raise RunDirectoryError(f"{path} cannot be read: {error}") from None
        self.closed = False
        self.schema: pa.Schema | None = None
        try:
            self.schema = pa.ipc.read_schema(self._source)
        except (pa.ArrowException, OSError, MemoryError):
            return

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self.schema is None:
            return
        self._source.seek(0)
        # Threads cost more than the small batches of a slow client.
        options = pa.ipc.IpcReadOptions(use_threads=False)
        reader = pa.ipc.open_stream(self._source, options=options)
        while True:
            start = self._source.tell()
            try:
                yield reader.read_next_batch()
            except StopIteration:
                # Raised with and without an end-of-stream marker.
                self._source.seek(start)
                self.closed = self._source.read(len(END_OF_STREAM)) == END_OF_STREAM
                return
            except (pa.ArrowException, OSError, EOFError, MemoryError):
                return


def table_stream_schema(table: pa.Schema, constants: Mapping[str, Any]) -> pa.Schema:
    """Return the schema of a `TableStream`; constant columns are its metadata."""
    constants = {"schema_version": SCHEMA_VERSION, **constants}
    return pa.schema(
        [
            pa.field(field.name, pa.int64() if field.type == TIME else field.type)
            for field in table
            if field.name not in constants
        ],
        {"constants": json.dumps(constants)},
    )


class TableStream:
    """One process's rows of one table, during a run.

    `table` is a schema of `ackproof_spark.tables`; `constants` are the columns with one value in
    all rows. Times are integers here: microseconds UTC.
    """

    def __init__(self, path: Path, table: pa.Schema, constants: Mapping[str, Any]) -> None:
        self._schema = table_stream_schema(table, constants)
        self._writer = StreamWriter(path, self._schema, what="the table")

    def write(self, columns: Mapping[str, Any]) -> None:
        """Append rows, given as lists or arrays by column. An absent column is null."""
        rows = len(next(iter(columns.values())))
        arrays = [
            pa.array(columns[field.name], field.type)
            if field.name in columns
            else pa.nulls(rows, field.type)
            for field in self._schema
        ]
        self._writer.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def write_rows(self, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Append one or more rows, each with the values of the columns `names`."""
        self.write(dict(zip(names, zip(*rows, strict=True), strict=True)))

    def close(self) -> None:
        self._writer.close()


def stream_path(run_dir: Path, table: str, process: str) -> Path:
    """Return the stream to which a process, such as `consumer-3`, records a table."""
    return run_dir / LOCATION[table] / f"_{process}{_SUFFIX}"


def recover(path: Path, table: pa.Schema) -> pa.Table:
    """Return the rows of the `TableStream` at `path`, in `table`'s schema."""
    parts = list(_tables(path, table))
    return pa.concat_tables(parts) if parts else table.empty_table()


def close(
    run_dir: Path,
    table: str,
    schema: pa.Schema,
    *,
    reduced: Callable[[pa.Table], pa.Table] | None = None,
) -> None:
    """Convert every stream of a table to Parquet; a second call changes nothing.

    `reduced` maps all rows of one process to those of the table; None keeps them. Raises
    `DiskError`.
    """

    def write(path: Path, temporary: Path) -> None:
        import pyarrow.parquet as pq

        tables = [reduced(recover(path, schema))] if reduced else _tables(path, schema)
        with pq.ParquetWriter(
            temporary, schema, compression="zstd", write_page_checksum=True
        ) as writer:
            for rows in tables:
                writer.write_table(rows, row_group_size=_ROW_GROUP)

    convert_all(run_dir / LOCATION[table], write)


def convert_all(folder: Path, write: Callable[[Path, Path], None]) -> None:
    """Convert each stream of a folder to `<process>.parquet`, then remove it.

    `write` converts its first argument to the Parquet file at its second. An interrupted conversion
    is repeated. Raises `DiskError`, or `RunDirectoryError` if a stream and its Parquet file both
    exist and differ, or if one is a link.
    """
    for path in sorted(folder.glob(f"_*{_SUFFIX}")):
        if path.is_symlink():
            raise RunDirectoryError(f"{path} is a link", hint="Put the file itself there.")
        target = path.with_name(path.stem.removeprefix("_") + ".parquet")
        if target.exists():
            _check_same(path, target, write)
        else:
            convert(path, target, partial(write, path))
        path.unlink()


def _check_same(path: Path, target: Path, write: Callable[[Path, Path], None]) -> None:
    """Check that `target` is the complete conversion of `path`."""
    import pyarrow.parquet as pq

    again = target.with_name(f"_{target.name}.again")
    convert(path, again, partial(write, path))
    try:
        same = pq.read_table(again).equals(pq.read_table(target))
    except (pa.ArrowException, OSError) as error:
        raise RunDirectoryError(f"{target} is damaged or cut short: {error}") from None
    finally:
        again.unlink()
    if not same:
        raise RunDirectoryError(
            f"{target} and {path.name} are of the same process and differ",
            hint="Move the one that does not belong to the run out of its directory.",
        )


def convert(path: Path, target: Path, write: Callable[[Path], None]) -> None:
    """Create `target` from `path` with `write`, atomically."""
    temporary = target.with_name(f"_{target.name}.tmp")
    try:
        safe_files.create(temporary)
        write(temporary)
        os.replace(temporary, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise DiskError(
            f"{target} cannot be written: {error.strerror or error}",
            hint=f"Free space there and run again; the recorded data is kept in {path}.",
        ) from error


def row_groups(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[list[pa.RecordBatch]]:
    """Group consecutive batches so that each group, but the last, has at least `size` rows."""
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        pending.append(batch)
        rows += batch.num_rows
        if rows >= size:
            yield pending
            pending, rows = [], 0
    if pending:
        yield pending


def assemble(
    schema: pa.Schema, rows: int, constants: Mapping[str, Any], columns: Mapping[str, Any]
) -> pa.Table:
    """Return a table of `schema`; the fields in `constants` have one value in all rows."""
    return pa.table(
        [
            pa.repeat(pa.scalar(constants[field.name], field.type), rows)
            if field.name in constants
            else columns[field.name].cast(field.type)
            for field in schema
        ],
        schema=schema,
    )


def _tables(path: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    with damage_reported(path):
        for batches in row_groups(StreamReader(path).batches(), _ROW_GROUP):
            rows = pa.Table.from_batches(batches)
            constants = json.loads(rows.schema.metadata[b"constants"])
            columns = dict(zip(rows.column_names, rows.columns, strict=True))
            yield assemble(schema, rows.num_rows, constants, columns)
