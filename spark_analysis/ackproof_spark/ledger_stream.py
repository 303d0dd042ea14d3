"""The ledger while a run goes on: each producer appends batches to an Arrow IPC stream.

`ledger/_producer-<number>.arrows` has a schema message, with the producer and its topic in the
metadata (`Origin`), then record batches with the columns of `STREAM`. Readers ignore an incomplete
batch at the end. The harness writes these files, and converts them to the table `ledger` at the end
of the run.

A producer that learns of more partitions first appends a line to
`ledger/_producer-<number>.growths`: the first sequence that uses them, and their new number.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ackproof_spark.tables import SCHEMA_VERSION, Outcome, columns

#: The stream stores an outcome as its index in this tuple.
OUTCOMES = (Outcome.ACKED, Outcome.FAILED, Outcome.UNKNOWN)

#: In `outcome`: the row is a reservation of sequences up to `sequence` (exclusive).
RESERVATION = len(OUTCOMES)

#: Columns of a send. Times are UTC microseconds; `error` is a Kafka error code.
STREAM = columns("""
    sequence bigint, outcome tinyint, error smallint?, offset bigint?, sent_at bigint?,
    resolved_at bigint?
""")

#: Arrow's end-of-stream marker: the producer closed the stream, so it has every send.
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"

#: Glob pattern of the streams in the ledger's folder.
PATTERN = "_producer-*.arrows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The columns of `tables.LEDGER` that are the same for all sends of a stream.

    Send `sequence` goes to partition `cycle[sequence % len(cycle)]`; without a cycle, to partition
    `sequence % partitions`. `later_cycles` are the cycles for each greater number of partitions
    that the topic may get. `growths` are the first sequences with more partitions, ascending, each
    with that number.
    """

    run_id: str
    producer: int
    topic: str
    partitions: int
    cycle: tuple[int, ...] = ()
    later_cycles: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    growths: tuple[tuple[int, int], ...] = ()

    def partition_of(self, sequences: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        partitions = _in_turn(sequences, self.cycle, self.partitions)
        for first, count in self.growths:
            grown = _in_turn(sequences, self.later_cycles.get(count, ()), count)
            partitions = np.where(sequences >= first, grown, partitions)
        return partitions

    def schema(self) -> pa.Schema:
        return STREAM.with_metadata(
            {
                "schema_version": str(SCHEMA_VERSION),
                "run_id": self.run_id,
                "producer": str(self.producer),
                "topic": self.topic,
                "partitions": str(self.partitions),
                "cycle": _joined(self.cycle),
                **{f"{_CYCLE}{count}": _joined(one) for count, one in self.later_cycles.items()},
            }
        )

    @classmethod
    def of(cls, schema: pa.Schema, stream: Path | None = None) -> Origin:
        """Return the origin of a stream with this schema; its growths are read beside `stream`.

        Raises ValueError for a damaged schema or wrong growths.
        """
        metadata = {key.decode(): value.decode() for key, value in schema.metadata.items()}
        return cls(
            run_id=metadata["run_id"],
            producer=int(metadata["producer"]),
            topic=metadata["topic"],
            partitions=int(metadata["partitions"]),
            cycle=_numbers(metadata.get("cycle", "")),
            later_cycles={
                int(key.removeprefix(_CYCLE)): _numbers(value)
                for key, value in metadata.items()
                if key.startswith(_CYCLE)
            },
            growths=_growths(stream) if stream else (),
        )


#: In a schema's metadata: before the number of partitions that a cycle is for.
_CYCLE = "cycle."


def _in_turn(
    sequences: npt.NDArray[np.int64], cycle: tuple[int, ...], partitions: int
) -> npt.NDArray[np.int32]:
    if not cycle:
        return (sequences % partitions).astype(np.int32)
    return np.array(cycle, np.int32)[sequences % len(cycle)]


def _joined(numbers: tuple[int, ...]) -> str:
    return " ".join(map(str, numbers))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


def growths_path(stream: Path) -> Path:
    """Return the file of a producer's growths; it exists once there is one."""
    return stream.with_suffix(".growths")


def _growths(stream: Path) -> tuple[tuple[int, int], ...]:
    """Return the growths beside `stream`, without an incomplete last line."""
    try:
        text = growths_path(stream).read_text()
    except FileNotFoundError:
        return ()
    growths: list[tuple[int, int]] = []
    for line in text[: text.rfind("\n") + 1].splitlines():
        first, count = map(int, line.split())
        if first < 0 or count < 1 or (growths and (first, count) <= growths[-1]):
            raise ValueError(f"the growth {line!r} is not after the one before")
        growths.append((first, count))
    return tuple(growths)


def stream_name(producer: int) -> str:
    """Return the file name of a producer's stream; the `_` hides it from Spark and DuckDB."""
    return f"_producer-{producer}.arrows"


def table_name(stream: str) -> str:
    """Return the name of the Parquet file that replaces a stream when the run is over."""
    return Path(stream).stem.removeprefix("_") + ".parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Whole batches of a stream, without reservations, and the byte position after the last.

    `origin` is None while the schema is incomplete.
    """

    origin: Origin | None
    batches: list[pa.RecordBatch]
    end: int


def read_piece(path: Path, start: int, stop: int | None = None) -> Piece:
    """Return the whole batches between two byte positions of the stream at `path`.

    `start` is 0 or the `end` of a piece. `stop` is any position, or None for the end of the file.
    Raises FileNotFoundError if the run has replaced the stream by its table.
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
                break  # incomplete, or the end-of-stream marker
            end = first + reader.tell()
            if batch["outcome"][0].as_py() != RESERVATION:
                batches.append(batch)
    # Read after the batches: a growth is recorded before the sends that use it.
    return Piece(origin=Origin.of(schema, path), batches=batches, end=end)


#: A schema message is some 700 bytes; topic names have 249 characters at most.
_SCHEMA_AT_MOST = 1 << 16


def _bytes(descriptor: int, start: int, stop: int) -> bytes:
    return os.pread(descriptor, stop - start, start)
