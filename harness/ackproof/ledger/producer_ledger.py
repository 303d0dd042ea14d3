"""The ledger: every send and its outcome, append-only, safe against SIGKILL.

While a producer runs, its part of the ledger is one append-only stream (`streams`): what was
written survives the death of the process, and a tail that the death tore is dropped.

The stream is write-ahead. Before sequences are handed to the client, a reservation says "below X
may have been handed over", so whatever such a producer left in Kafka's log is a known send. Two
sequences reserved, one acked, then SIGKILL::

    reserve 2 | acked 0 at offset 17 |            -> 0 acked, 1 unknown
    reserve 2 | acked 0 at off                    -> 0 unknown, 1 unknown

A stream that ends with Arrow's end-of-stream marker was closed by its producer: it holds every
send, and nothing is inferred. After the run, `close` turns each stream into
`producer-<number>.parquet` in `tables.LEDGER`'s schema.

A send takes some 11 bytes in the stream at full speed (a row of 35, before LZ4), and at most 40:
topic, run and partition are not stored, for a send's partition follows from its sequence
(`Origin`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof.errors import RunDirectoryError
from ackproof.ledger import arrow_stream, transaction_log
from ackproof.ledger.arrow_stream import StreamReader, StreamWriter
from ackproof.ledger.in_flight import InFlight
from ackproof.ledger.outcome import error_name
from ackproof_spark.ledger_stream import (
    OUTCOMES,
    PATTERN,
    RESERVATION,
    STREAM,
    Origin,
    stream_name,
    table_name,
)
from ackproof_spark.tables import (
    LEDGER,
    LOCATION,
    SCHEMA_VERSION,
    TIME,
    Outcome,
)

Int64s = npt.NDArray[np.int64]

#: Rows of one Parquet row group: each is sorted by partition and offset within itself.
ROW_GROUP = 1_000_000


def stream_path(run_dir: Path, producer: int) -> Path:
    """Return where a producer's stream is; the leading `_` hides it from Spark and DuckDB."""
    return run_dir / LOCATION["ledger"] / stream_name(producer)


def table_path(run_dir: Path, producer: int) -> Path:
    """Return where a producer's ledger is once the run is over."""
    return run_dir / LOCATION["ledger"] / table_name(stream_name(producer))


class LedgerWriter:
    """Appends one producer's reservations and outcomes to its stream.

    Raises `DiskError` from every method that writes; what was written before stays readable.
    """

    def __init__(self, path: Path, origin: Origin) -> None:
        self.path = path
        self._schema = origin.schema()
        self._stream = StreamWriter(path, self._schema, what="the ledger")
        pa.array(np.zeros(0, np.int64))  # the first imports pandas: not beside the first sends

    def reserve(self, below: int) -> None:
        """Record that sequences below `below` may be handed to the client from now on."""
        self.write(sequence=np.array([below], np.int64), outcome=RESERVATION)

    def write(
        self,
        *,
        sequence: Int64s,
        outcome: int | npt.NDArray[np.int8],
        error: pa.Array | None = None,
        offset: pa.Array | None = None,
        sent_at: Int64s | None = None,
        resolved_at: Int64s | None = None,
    ) -> None:
        """Append one row for each of `sequence`, columns as in `STREAM`; None is null throughout.

        `outcome` holds positions in `OUTCOMES`.
        """
        rows = len(sequence)
        if isinstance(outcome, int):
            outcome = np.full(rows, outcome, np.int8)
        columns = [
            pa.array(sequence),
            pa.array(outcome),
            error if error is not None else pa.nulls(rows, pa.int16()),
            offset if offset is not None else pa.nulls(rows, pa.int64()),
            pa.array(sent_at) if sent_at is not None else pa.nulls(rows, pa.int64()),
            pa.array(resolved_at) if resolved_at is not None else pa.nulls(rows, pa.int64()),
        ]
        self._stream.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        """Mark the stream as holding every send, and close it."""
        self._stream.close()


class _Reader:
    """Reads a stream, one batch in memory at a time, up to the first torn message.

    `transactions` is what became of the sends' transactions; None if they were in none.
    """

    def __init__(self, path: Path) -> None:
        self._stream = StreamReader(path)
        self._transactions = transaction_log.beside(path)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the stream's sends in `tables.LEDGER`, `ROW_GROUP` and at most a batch at a time.

        Nothing, if not even the schema was written whole.
        """
        if self._stream.schema is None:
            return
        origin = Origin.of(self._stream.schema)
        pending: list[pa.RecordBatch] = []
        rows = 0
        for batch in self._sends():
            pending.append(batch)
            rows += batch.num_rows
            if rows >= ROW_GROUP:
                yield self._table(pending, origin)
                pending, rows = [], 0
        if pending:
            yield self._table(pending, origin)

    def _sends(self) -> Iterator[pa.RecordBatch]:
        """Yield what was recorded, then as unknown what was only reserved, if the end is torn."""
        open_sends = InFlight()
        reserved = 0
        for batch in self._stream.batches():
            sequence = batch["sequence"].to_numpy()
            if batch["outcome"][0].as_py() == RESERVATION:
                below = int(sequence[0])
                open_sends.admit(reserved, below)
                open_sends.hand_over(np.arange(reserved, below), at=1)
                reserved = below
            else:
                open_sends.settle(sequence)
                yield batch
        if self._stream.whole:
            return
        rest = open_sends.rest()
        for first in range(0, len(rest), ROW_GROUP):
            yield _unknown(rest[first : first + ROW_GROUP])

    def _table(self, batches: list[pa.RecordBatch], origin: Origin) -> pa.Table:
        rows = pa.Table.from_batches([batch.replace_schema_metadata() for batch in batches])
        if self._transactions is not None:
            rows = self._transactions.applied(rows)
        return _table(rows, origin)


def _unknown(sequence: Int64s) -> pa.RecordBatch:
    rows = len(sequence)
    outcome = np.full(rows, OUTCOMES.index(Outcome.UNKNOWN), np.int8)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(sequence),
            pa.array(outcome),
            *(pa.nulls(rows, field.type) for field in list(STREAM)[2:]),
        ],
        schema=STREAM,
    )


def _table(rows: pa.Table, origin: Origin) -> pa.Table:
    """Return `rows` in `tables.LEDGER`'s schema, sorted by partition and offset."""
    sequence = rows["sequence"].to_numpy()
    partition = pa.array(origin.partition_of(sequence))
    rows = rows.append_column("partition", partition).sort_by(
        [("partition", "ascending"), ("offset", "ascending")]
    )
    codes = pc.unique(rows["error"]).drop_null().to_pylist()
    names = pa.array([error_name(code) for code in codes], pa.string())
    count = rows.num_rows
    constant = {
        "schema_version": pa.scalar(SCHEMA_VERSION, pa.int32()),
        "run_id": pa.scalar(origin.run_id),
        "producer": pa.scalar(origin.producer, pa.int64()),
        "topic": pa.scalar(origin.topic),
    }
    columns: dict[str, Any] = {
        name: pa.repeat(value, count) for name, value in constant.items()
    } | {
        "sequence": rows["sequence"],
        "partition": rows["partition"],
        "outcome": pa.array([*OUTCOMES, Outcome.ABORTED], pa.string()).take(rows["outcome"]),
        "error": names.take(pc.index_in(rows["error"], pa.array(codes, pa.int16()))),
        "offset": rows["offset"],
        "sent_at": rows["sent_at"].cast(TIME),
        "resolved_at": rows["resolved_at"].cast(TIME),
    }
    return pa.table([columns[name] for name in LEDGER.names], schema=LEDGER)


def recover(path: Path) -> pa.Table:
    """Return every send of the stream at `path`, torn or whole, in `tables.LEDGER`.

    Reserved sequences without an outcome are `unknown`, with null times: their producer died
    first. A stream torn within its first message yields no rows: nothing was handed over yet.
    Raises `RunDirectoryError` if there is no file.
    """
    if not path.is_file():
        raise RunDirectoryError(f"no ledger at {path}", hint="is it a run directory's ledger/?")
    parts = list(_Reader(path).tables())
    return pa.concat_tables(parts) if parts else LEDGER.empty_table()


def close(run_dir: Path) -> list[Path]:
    """Turn every stream of a run into its Parquet file; return all the ledger's Parquet files.

    Row groups are in the order of recording, and each is sorted by partition and offset. A file
    appears under its name only when complete, and its stream goes only then: a `close` that was
    interrupted is finished by the next one. Raises `DiskError`.
    """
    folder = run_dir / LOCATION["ledger"]
    for path in sorted(folder.glob(PATTERN)):
        target = path.with_name(table_name(path.name))
        if not target.exists():
            arrow_stream.convert(path, target, partial(_write_parquet, path))
        path.unlink()
    return sorted(folder.glob("producer-*.parquet"))


def parquet_writer(path: Path) -> pq.ParquetWriter:
    """Return a writer of `tables.LEDGER`, with the encodings that every ledger has."""
    distinct = ["sequence", "offset", "sent_at", "resolved_at"]
    return pq.ParquetWriter(
        path,
        LEDGER,
        compression="zstd",
        use_dictionary=[name for name in LEDGER.names if name not in distinct],
        column_encoding=dict.fromkeys(distinct, "DELTA_BINARY_PACKED"),
    )


def _write_parquet(path: Path, temporary: Path) -> None:
    with parquet_writer(temporary) as writer:
        for table in _Reader(path).tables():
            writer.write_table(table, row_group_size=table.num_rows)
