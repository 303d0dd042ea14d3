"""The ledger: every send and its outcome, append-only, safe against SIGKILL.

During a run each producer has an append-only stream (`arrow_stream`): written batches survive the
end of the process, and an incomplete one at the end is dropped.

The stream is write-ahead. Before sequences are handed to librdkafka, a reservation records that all
sequences below X may have been handed over, so that every record of a killed producer in Kafka's
log is a known send. Two sequences reserved, one acked, then SIGKILL::

    reserve 2 | acked 0 at offset 17 |            -> 0 acked, 1 unknown
    reserve 2 | acked 0 at off                    -> 0 unknown, 1 unknown

A stream with Arrow's end-of-stream marker was closed by its producer: it contains every send, and
nothing is inferred. After the run `close` converts each stream to `producer-<number>.parquet` in
`tables.LEDGER`'s schema.

A send takes about 11 bytes in the stream at full speed (a row of 35, before LZ4), and at most 40.
Topic, run and partition are not stored: a send's partition follows from its sequence (`Origin`),
and from the number of partitions that its producer knew (`growths_path`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ackproof.errors import DiskError, RunDirectoryError
from ackproof.ledger import arrow_stream, transaction_log
from ackproof.ledger.arrow_stream import StreamReader, StreamWriter
from ackproof.ledger.outcome import error_name
from ackproof_spark.ledger_stream import (
    OUTCOMES,
    RESERVATION,
    STREAM,
    Origin,
    growths_path,
    stream_name,
    table_name,
)
from ackproof_spark.tables import (
    LEDGER,
    LOCATION,
    SCHEMA_VERSION,
    Outcome,
)

if TYPE_CHECKING:
    import pyarrow.parquet as pq

Int64s = npt.NDArray[np.int64]

_SETTLED = 0


class InFlight:
    """The sends in flight: a window that slides when the oldest sends settle, and grows otherwise.

    `count` is the number of sends in flight.
    """

    def __init__(self, capacity: int = 1 << 18) -> None:
        self._first = 0
        self._sent_at = np.zeros(capacity, np.int64)
        self.count = 0

    def admit(self, first: int, stop: int) -> None:
        """Make room for sequences from `first` to `stop` (exclusive); later ones are larger."""
        if stop - self._first <= len(self._sent_at):
            return
        live = np.flatnonzero(self._sent_at)
        oldest = min(first, self._first + int(live[0])) if len(live) else first
        capacity = len(self._sent_at)
        # At most half full afterwards, so that sliding is rare.
        while (stop - oldest) * 2 > capacity:
            capacity *= 2
        rest = self._sent_at[oldest - self._first :]
        self._first = oldest
        self._sent_at = np.zeros(capacity, np.int64)
        self._sent_at[: len(rest)] = rest

    def hand_over(self, sequences: Int64s, at: int | Int64s) -> None:
        """Note that admitted `sequences` were sent at `at`, microseconds UTC."""
        self._sent_at[sequences - self._first] = at
        self.count += len(sequences)

    def settle(self, sequences: Int64s) -> Int64s:
        positions = sequences - self._first
        sent_at = self._sent_at[positions]
        self._sent_at[positions] = _SETTLED
        self.count -= len(sequences)
        return sent_at

    def rest(self) -> Int64s:
        """Return the sequences in flight, ascending."""
        return np.flatnonzero(self._sent_at).astype(np.int64) + self._first


#: More sequences than any producer reserves at once.
_MOST_RESERVED = 1 << 24

#: Rows of one Parquet row group, which is sorted by partition and offset.
ROW_GROUP = 1_000_000


def stream_path(run_dir: Path, producer: int) -> Path:
    return run_dir / LOCATION["ledger"] / stream_name(producer)


def table_path(run_dir: Path, producer: int) -> Path:
    """Return the Parquet file of a producer, which replaces its stream after the run."""
    return run_dir / LOCATION["ledger"] / table_name(stream_name(producer))


class LedgerWriter:
    """Appends one producer's reservations and outcomes to its stream.

    Every method that writes raises `DiskError`; earlier batches stay readable.
    """

    def __init__(self, path: Path, origin: Origin) -> None:
        self.path = path
        self._schema = origin.schema()
        self._stream = StreamWriter(path, self._schema, what="the ledger")
        # The first call looks for pandas, which must not delay sends.
        pa.array(np.zeros(0, np.int64))

    def reserve(self, below: int) -> None:
        """Record that sequences below `below` may be handed to librdkafka from now on."""
        self.write(sequence=np.array([below], np.int64), outcome=RESERVATION)

    def grow(self, first: int, partitions: int) -> None:
        """Record that sequences from `first` on may go to this greater number of partitions."""
        path = growths_path(self.path)
        try:
            with path.open("a") as file:
                file.write(f"{first} {partitions}\n")
        except OSError as error:
            raise DiskError(
                f"{path} cannot be written: {error.strerror}",
                hint="Free space there, or write runs to another folder.",
            ) from error

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
        """Append a row for each of `sequence`, with the columns of `STREAM`; None is all null.

        `outcome` contains positions in `OUTCOMES`.
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
        """Write the end marker: the stream contains every send."""
        self._stream.close()


class _Reader:
    """Reads a stream batch by batch, up to the first incomplete message.

    The outcomes of transactions, if there are any, determine those of their sends.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream = StreamReader(path)
        self._transactions = transaction_log.transactions_of(path)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the stream's sends in `tables.LEDGER`, about `ROW_GROUP` at a time.

        None if the schema message is incomplete. Raises RunDirectoryError if the stream is damaged.
        """
        if self._stream.schema is None:
            return
        with arrow_stream.damage_reported(self._path):
            origin = Origin.of(self._stream.schema, self._path)
            for batches in arrow_stream.row_groups(self._sends(), ROW_GROUP):
                rows = pa.Table.from_batches([batch.replace_schema_metadata() for batch in batches])
                if self._transactions is not None:
                    rows = transaction_log.applied(self._transactions, rows)
                yield _table(rows, origin)

    def extent(self) -> tuple[int, bool]:
        """Return the number of sends, and whether the producer has closed the stream."""
        if self._stream.schema is None:
            return 0, False
        with arrow_stream.damage_reported(self._path):
            return sum(batch.num_rows for batch in self._sends()), self._stream.closed

    def _sends(self) -> Iterator[pa.RecordBatch]:
        """Yield recorded sends; without an end marker, then reserved sequences as unknown."""
        open_sends = InFlight()
        reserved = 0
        for batch in self._stream.batches():
            sequence = batch["sequence"].to_numpy()
            if batch["outcome"][0].as_py() == RESERVATION:
                below = int(sequence[0])
                if not reserved <= below <= reserved + _MOST_RESERVED:
                    raise ValueError(f"sequences up to {below} are reserved after {reserved}")
                open_sends.admit(reserved, below)
                open_sends.hand_over(np.arange(reserved, below), at=1)
                reserved = below
            else:
                if sequence.min() < 0 or sequence.max() >= reserved:
                    raise ValueError(f"it has sequences that are not below {reserved}")
                open_sends.settle(sequence)
                yield batch
        if self._stream.closed:
            return
        rest = open_sends.rest()
        for first in range(0, len(rest), ROW_GROUP):
            yield _unknown(rest[first : first + ROW_GROUP])


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
    import pyarrow.compute as pc

    partition = pa.array(origin.partition_of(rows["sequence"].to_numpy()))
    rows = rows.append_column("partition", partition).sort_by(
        [("partition", "ascending"), ("offset", "ascending")]
    )
    codes = pc.unique(rows["error"]).drop_null().to_pylist()
    names = pa.array([error_name(code) for code in codes], pa.string())
    outcomes = pa.array([*OUTCOMES, Outcome.ABORTED], pa.string())
    constants = {
        "schema_version": SCHEMA_VERSION,
        "run_id": origin.run_id,
        "producer": origin.producer,
        "topic": origin.topic,
    }
    columns = dict(zip(rows.column_names, rows.columns, strict=True)) | {
        "outcome": outcomes.take(rows["outcome"]),
        "error": names.take(pc.index_in(rows["error"], pa.array(codes, pa.int16()))),
    }
    return arrow_stream.assemble(LEDGER, rows.num_rows, constants, columns)


def recover(path: Path) -> pa.Table:
    """Return every send of the stream at `path`, in `tables.LEDGER`.

    Reserved sequences without an outcome are `unknown`, with null times: their producer was killed.
    A stream whose first message is incomplete has no rows: nothing was handed over yet.
    Raises `RunDirectoryError` if there is no file.
    """
    if not path.is_file():
        raise RunDirectoryError(
            f"no ledger at {path}", hint="Name a file in the ledger/ folder of a run directory."
        )
    parts = list(_Reader(path).tables())
    return pa.concat_tables(parts) if parts else LEDGER.empty_table()


def extent(path: Path) -> tuple[int, bool]:
    """Return how many sends the stream at `path` has, and whether its producer has closed it."""
    return _Reader(path).extent()


def close(run_dir: Path) -> list[Path]:
    """Convert every stream of a run to Parquet; return all Parquet files of the ledger.

    Row groups are in the order of recording, each sorted by partition and offset. Raises
    `DiskError`.
    """
    folder = run_dir / LOCATION["ledger"]
    arrow_stream.convert_all(folder, _write_parquet)
    return sorted(folder.glob("producer-*.parquet"))


def parquet_writer(path: Path) -> pq.ParquetWriter:
    """Return a writer of `tables.LEDGER` with the ledger's encodings."""
    import pyarrow.parquet as pq

    distinct = ["sequence", "offset", "sent_at", "resolved_at"]
    return pq.ParquetWriter(
        path,
        LEDGER,
        compression="zstd",
        write_page_checksum=True,
        use_dictionary=[name for name in LEDGER.names if name not in distinct],
        column_encoding=dict.fromkeys(distinct, "DELTA_BINARY_PACKED"),
    )


def _write_parquet(path: Path, temporary: Path) -> None:
    with parquet_writer(temporary) as writer:
        for table in _Reader(path).tables():
            writer.write_table(table, row_group_size=table.num_rows)
