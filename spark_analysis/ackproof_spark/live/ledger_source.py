"""A run's ledger as a Spark stream, while its producers append to it.

An offset says of each producer's stream how many bytes and rows were taken. Only whole batches are
(see `ledger_stream`), so the same two offsets always give the same rows. Reservations are left out.

When a run is over its streams become Parquet tables and go. A stream that goes before it was read
to its end stops the query with an error: what is missing cannot be told from what was read.

Importing this module imports Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from ackproof_spark.errors import AnalysisError
from ackproof_spark.ledger_stream import (
    PATTERN,
    Piece,
    read_piece,
    table_name,
)
from ackproof_spark.live.partition import Kind
from ackproof_spark.live.sends import NO_OFFSET
from ackproof_spark.tables import TIME

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAME = "ackproof-ledger"

#: What happened to a send, or to a record: what both sources come down to. See `partition.Events`.
EVENTS = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("kind", pa.int32()),
        pa.field("producer", pa.int64()),
        pa.field("sequence", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("at", TIME),
        pa.field("sent_at", pa.int64()),
    ]
)

#: When the job began and when the run was over, as the watermark sees it: before and after
#: everything (1970 and 2100), microseconds.
_FIRST, _LAST = 0, 4_102_444_800_000_000

_BEGUN, _ENDED = "begun", "ended"

#: How far each stream was taken, bytes and rows; `begun` and `ended` once these were told.
Offset = dict[str, Any]


class LedgerSource(DataSource):  # type: ignore[misc]  # pyspark is not typed for mypy here
    """`path` is the ledger's folder; `ended` a file whose appearance says that the run is over."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Return `EVENTS`."""
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(EVENTS)

    def simpleStreamReader(self, schema: StructType) -> LedgerReader:  # noqa: N802  Spark's name
        """Return the reader."""
        return LedgerReader(Path(self.options["path"]), Path(self.options["ended"]))


class LedgerReader(SimpleDataSourceStreamReader):  # type: ignore[misc]
    """Reads what was appended since an offset."""

    def __init__(self, folder: Path, ended: Path) -> None:
        self._folder = folder
        self._ended = ended

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the offset of nothing."""
        return {}

    def read(self, start: Offset) -> tuple[Iterator[pa.RecordBatch], Offset]:
        """Return what whole batches there are since `start`, and the offset after them."""
        end = dict(start)
        # Asked first: what stands in the ledger by then is read in this batch or was before.
        over = self._ended.exists()
        batches = []
        if not start:
            # Something to do at once: what the first micro-batch needs to start takes seconds.
            end[_BEGUN] = True
            batches.append(_mark(_FIRST))
        for path in sorted(self._folder.glob(PATTERN)):
            taken, rows = start.get(path.name, (0, 0))
            try:
                piece = read_piece(path, taken)
            except FileNotFoundError:
                continue  # the run is just closing its ledger: found below, the next time
            batches += _events(piece)
            rows += sum(batch.num_rows for batch in piece.batches)
            if piece.end > taken:
                end[path.name] = [piece.end, rows]
        self._check_closed(end)
        if over and not start.get(_ENDED):
            end[_ENDED] = True
            batches.append(_mark(_LAST))
        return iter(batches), end

    def readBetweenOffsets(  # noqa: N802
        self, start: Offset, end: Offset
    ) -> Iterator[pa.RecordBatch]:
        """Yield the same again. Raises AnalysisError if the ledger was closed meanwhile."""
        if not start:
            yield _mark(_FIRST)
        for name, upto in end.items():
            if name in (_BEGUN, _ENDED):
                continue
            taken = start.get(name, (0, 0))[0]
            if upto[0] > taken:
                try:
                    yield from _events(read_piece(self._folder / name, taken, upto[0]))
                except FileNotFoundError:
                    raise _closed(name) from None
        if end.get(_ENDED) and not start.get(_ENDED):
            yield _mark(_LAST)

    def _check_closed(self, taken: Mapping[str, Any]) -> None:
        """Raise AnalysisError if a table holds sends that its stream did not give us in time."""
        for table in self._folder.glob("producer-*.parquet"):
            stream = f"_{table.stem}.arrows"
            if (self._folder / stream).exists():
                continue
            assert table_name(stream) == table.name
            rows = taken.get(stream, (0, 0))[1]
            if _recorded(table) > rows:
                raise _closed(stream)


def _closed(stream: str) -> AnalysisError:
    return AnalysisError(
        f"the run is over, and {stream} was closed before it was followed to its end: follow a run "
        "from its beginning (ackproof run --live), or judge it with ackproof check"
    )


def _recorded(table: Path) -> int:
    """Return the rows of a table that its stream held: closing adds those without a time."""
    resolved = pq.read_table(table, columns=["resolved_at"])["resolved_at"]
    return int(len(resolved) - resolved.null_count)


def _events(piece: Piece) -> list[pa.RecordBatch]:
    origin = piece.origin
    if origin is None:
        return []
    batches = []
    for batch in piece.batches:
        rows = batch.num_rows
        sequence = batch["sequence"].to_numpy()
        columns: dict[str, Any] = {
            "topic": pa.repeat(pa.scalar(origin.topic), rows),
            "partition": origin.partition_of(sequence),
            "kind": batch["outcome"].cast(pa.int32()),
            "producer": pa.repeat(pa.scalar(origin.producer, pa.int64()), rows),
            "sequence": sequence,
            "offset": batch["offset"].fill_null(NO_OFFSET),
            "at": batch["resolved_at"].cast(TIME),
            "sent_at": batch["sent_at"],
        }
        batches.append(
            pa.RecordBatch.from_arrays([pa.array(columns[n]) for n in EVENTS.names], schema=EVENTS)
        )
    return batches


def _mark(at: int) -> pa.RecordBatch:
    row = {
        "topic": "",
        "partition": -1,
        "kind": int(Kind.MARK),
        "producer": 0,
        "sequence": 0,
        "offset": NO_OFFSET,
        "at": at,
        "sent_at": 0,
    }
    return pa.RecordBatch.from_pylist([row], schema=EVENTS)
