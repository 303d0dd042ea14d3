"""What a client process records: append-only Arrow IPC streams, safe against SIGKILL.

A stream is a schema message, then record batches, each appended whole by one write(2). What was
written survives the death of the process; a tail that the death tore is dropped, never guessed at.
(Survival of the *host's* power loss is not claimed: nothing is fsynced, and the run would be void
anyway.) While a run goes on, `<table>/_<process>.arrows` holds what one process recorded of one
table; `close` turns each into `<process>.parquet`. The leading `_` hides it from Spark and DuckDB.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ackproof.errors import DiskError
from ackproof_spark.ledger_stream import END_OF_STREAM
from ackproof_spark.tables import LOCATION, SCHEMA_VERSION, TIME

#: LZ4 costs about what the write(2) of the bytes it saves would. Threads would fight the client's.
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)

_SUFFIX = ".arrows"

#: Rows of one Parquet row group.
_ROW_GROUP = 1_000_000


class StreamWriter:
    """Appends record batches of one schema to a file of its own.

    Raises `DiskError` from every method that writes, naming `what`; what was written before stays
    readable.
    """

    def __init__(self, path: Path, schema: pa.Schema, *, what: str) -> None:
        self.path = path
        self._what = what
        self._message = io.BytesIO()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        except OSError as error:
            raise self._disk_error(error) from error
        self._stream = pa.ipc.new_stream(self._message, schema, options=_OPTIONS)

    def append(self, batch: pa.RecordBatch) -> None:
        """Append one batch, and with the first the schema."""
        self._stream.write_batch(batch)
        self._flush()

    def close(self) -> None:
        """Mark the stream as whole, and close it."""
        self._stream.close()
        self._flush()
        os.close(self._fd)

    def _flush(self) -> None:
        """Write the message that was just composed, whole, and start the next."""
        rest = memoryview(self._message.getvalue())
        try:
            while rest:
                # A short write comes before ENOSPC, which the next write then raises.
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            raise self._disk_error(error) from error
        self._message.seek(0)
        self._message.truncate()

    def _disk_error(self, error: OSError) -> DiskError:
        return DiskError(
            f"cannot write {self._what} {self.path}: {error.strerror}",
            hint="free space there or choose another folder with --runs; "
            "what was recorded so far stays and can be read",
        )


class StreamReader:
    """Reads a stream, one batch in memory at a time, up to the first torn message.

    `schema` is None if not even that was written whole. `whole` says, once all batches were read,
    that the writer closed the stream.
    """

    def __init__(self, path: Path) -> None:
        self._source = pa.OSFile(str(path))
        self.whole = False
        self.schema: pa.Schema | None = None
        try:
            self.schema = pa.ipc.read_schema(self._source)
        except (pa.ArrowInvalid, OSError):
            return

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches that were written whole."""
        while self.schema is not None:
            start = self._source.tell()
            if self._source.read(len(END_OF_STREAM)) == END_OF_STREAM:
                self.whole = True
                return
            self._source.seek(start)
            try:
                yield pa.ipc.read_record_batch(self._source, self.schema)
            except (pa.ArrowInvalid, OSError, EOFError):
                return


class TableStream:
    """One process's rows of one table, while it runs.

    `table` is one of `tables`' schemas; `constants` are the columns that are the same in all rows.
    Times are microseconds UTC as integers here.
    """

    def __init__(self, path: Path, table: pa.Schema, constants: Mapping[str, Any]) -> None:
        constants = {"schema_version": SCHEMA_VERSION, **constants}
        self._schema = pa.schema(
            [
                pa.field(field.name, pa.int64() if field.type == TIME else field.type)
                for field in table
                if field.name not in constants
            ],
            {"constants": json.dumps(constants)},
        )
        self._writer = StreamWriter(path, self._schema, what="the table")

    def write(self, columns: Mapping[str, Any]) -> None:
        """Append rows, given as lists or arrays by column; a column left out is null."""
        rows = len(next(iter(columns.values())))
        arrays = [
            pa.array(columns[field.name], field.type)
            if field.name in columns
            else pa.nulls(rows, field.type)
            for field in self._schema
        ]
        self._writer.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        """Mark the stream as whole, and close it."""
        self._writer.close()


def stream_path(run_dir: Path, table: str, process: str) -> Path:
    """Return where a process (`consumer-3`) records a table while it runs."""
    return run_dir / LOCATION[table] / f"_{process}{_SUFFIX}"


def recover(path: Path, table: pa.Schema) -> pa.Table:
    """Return the rows of the `TableStream` at `path`, torn or whole, in `table`'s schema."""
    parts = list(_tables(path, table))
    return pa.concat_tables(parts) if parts else table.empty_table()


def close(
    run_dir: Path,
    table: str,
    schema: pa.Schema,
    *,
    reduced: Callable[[pa.Table], pa.Table] | None = None,
) -> None:
    """Turn every stream of a table into its Parquet file; twice is a no-op.

    `reduced` makes the table's rows of all that one process recorded; None if they are the same.
    Raises `DiskError`.
    """

    def write(path: Path, temporary: Path) -> None:
        tables = [reduced(recover(path, schema))] if reduced else _tables(path, schema)
        with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for rows in tables:
                writer.write_table(rows, row_group_size=_ROW_GROUP)

    for path in sorted((run_dir / LOCATION[table]).glob(f"_*{_SUFFIX}")):
        target = path.with_name(path.stem.removeprefix("_") + ".parquet")
        if not target.exists():
            convert(path, target, partial(write, path))
        path.unlink()


def convert(path: Path, target: Path, write: Callable[[Path], None]) -> None:
    """Have `write` make `target` of what is at `path`; it appears only when it is complete."""
    temporary = target.with_name(f"_{target.name}.tmp")
    try:
        write(temporary)
        os.replace(temporary, target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise DiskError(
            f"cannot write {target}: {error.strerror or error}",
            hint=f"free space there and run again; what was recorded stays in {path}",
        ) from error


def _tables(path: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    reader = StreamReader(path)
    pending: list[pa.RecordBatch] = []
    for batch in reader.batches():
        pending.append(batch)
        if sum(one.num_rows for one in pending) >= _ROW_GROUP:
            yield _whole(pending, schema)
            pending = []
    if pending:
        yield _whole(pending, schema)


def _whole(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    rows = pa.Table.from_batches(batches)
    constants = json.loads(rows.schema.metadata[b"constants"])
    columns = [
        pa.repeat(pa.scalar(constants[field.name], field.type), rows.num_rows)
        if field.name in constants
        else rows[field.name].cast(field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
