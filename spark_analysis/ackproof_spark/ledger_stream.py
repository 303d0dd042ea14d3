"""The ledger while a run goes on: one Arrow IPC stream a producer, appended to by whole batches.

`ledger/_producer-<number>.arrows` is a schema message, whose metadata say whose sends they are
(`Origin`), then record batches in `STREAM`'s columns. A tail that is not whole yet is left alone.
The harness writes these files, and turns them into the table `ledger` when the run is over.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ackproof_spark.tables import SCHEMA_VERSION, Outcome

#: Outcomes as the stream stores them, by position.
OUTCOMES = (Outcome.ACKED, Outcome.FAILED, Outcome.UNKNOWN)

#: In `outcome`'s place: the row is a reservation, and `sequence` its bound (exclusive).
RESERVATION = len(OUTCOMES)

#: What a stream stores of a send. Times are UTC microseconds; `error` is a Kafka error code.
STREAM = pa.schema(
    [
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("outcome", pa.int8(), nullable=False),
        pa.field("error", pa.int16()),
        pa.field("offset", pa.int64()),
        pa.field("sent_at", pa.int64()),
        pa.field("resolved_at", pa.int64()),
    ]
)

#: Arrow's end-of-stream marker: the producer closed the stream, it holds every send.
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"

#: What finds the streams in the ledger's folder.
PATTERN = "_producer-*.arrows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Whose sends a stream holds: the part of `tables.LEDGER` that is the same in every row.

    Send `sequence` went to partition `cycle[sequence % len(cycle)]`; without a cycle round robin
    over `partitions`.
    """

    run_id: str
    producer: int
    topic: str
    partitions: int
    cycle: tuple[int, ...] = ()

    def partition_of(self, sequences: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Return where sends went."""
        if not self.cycle:
            return (sequences % self.partitions).astype(np.int32)
        found: npt.NDArray[np.int32] = np.array(self.cycle, np.int32)[sequences % len(self.cycle)]
        return found

    def schema(self) -> pa.Schema:
        """Return the stream's schema, with this in its metadata."""
        return STREAM.with_metadata(
            {
                "schema_version": str(SCHEMA_VERSION),
                "run_id": self.run_id,
                "producer": str(self.producer),
                "topic": self.topic,
                "partitions": str(self.partitions),
                "cycle": " ".join(map(str, self.cycle)),
            }
        )

    @classmethod
    def of(cls, schema: pa.Schema) -> Origin:
        """Return what `schema` put into a stream's metadata."""
        metadata = {key.decode(): value.decode() for key, value in schema.metadata.items()}
        return cls(
            run_id=metadata["run_id"],
            producer=int(metadata["producer"]),
            topic=metadata["topic"],
            partitions=int(metadata["partitions"]),
            cycle=tuple(map(int, metadata.get("cycle", "").split())),
        )


def stream_name(producer: int) -> str:
    """Return the file name of a producer's stream; the `_` hides it from Spark and DuckDB."""
    return f"_producer-{producer}.arrows"


def table_name(stream: str) -> str:
    """Return the file name that a stream's sends have once the run is over."""
    return Path(stream).stem.removeprefix("_") + ".parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Whole batches of a stream, without reservations, and the byte position after the last.

    `origin` is None while not even the schema is whole.
    """

    origin: Origin | None
    batches: list[pa.RecordBatch]
    end: int


def read_piece(path: Path, start: int, stop: int | None = None) -> Piece:
    """Return the whole batches that stand between two positions of the stream at `path`.

    `start` is 0 or some piece's `end`; `stop` likewise, None for as far as there is. Raises
    FileNotFoundError if the run has turned the stream into its table.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        stop = size if stop is None else min(stop, size)
        if stop == 0:
            return Piece(origin=None, batches=[], end=0)
        source = pa.py_buffer(_bytes(file.fileno(), 0, min(stop, _SCHEMA_AT_MOST)))
        reader = pa.BufferReader(source)
        try:
            schema = pa.ipc.read_schema(reader)
        except (pa.ArrowInvalid, OSError):
            return Piece(origin=None, batches=[], end=0)
        end = max(start, reader.tell())
        reader = pa.BufferReader(pa.py_buffer(_bytes(file.fileno(), end, stop)))
        first = end
        batches = []
        while True:
            try:
                batch = pa.ipc.read_record_batch(reader, schema)
            except (pa.ArrowInvalid, OSError, EOFError):
                break  # torn, not written yet, or the end-of-stream marker
            end = first + reader.tell()
            if batch["outcome"][0].as_py() != RESERVATION:
                batches.append(batch)
    return Piece(origin=Origin.of(schema), batches=batches, end=end)


#: A schema message is some 700 bytes; topic names have 249 characters at most.
_SCHEMA_AT_MOST = 1 << 16


def _bytes(descriptor: int, start: int, stop: int) -> bytes:
    return os.pread(descriptor, stop - start, start)
