"""A run's ledger as a Spark stream, while its producers append to it.

An offset has, for each producer's stream, the bytes and rows that were read. Only whole batches are
read (see `ledger_stream`), so the same two offsets always give the same rows. Reservations are left
out.

At the end of a run its streams are converted to Parquet tables and deleted. If that happens before
a stream was read to its end, the query fails: it cannot know which rows of the table are new.

Importing this module imports Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from ackproof_spark.errors import AnalysisError
from ackproof_spark.ledger_stream import PATTERN, Piece, read_piece, table_name
from ackproof_spark.live.partition import NO_OFFSET, Kind
from ackproof_spark.spark.functions import StructType, spark_schema
from ackproof_spark.tables import TIME, columns

NAME = "ackproof-ledger"

#: An outcome of a send, or a read of a record: the rows of both sources. See `partition.EVENTS`.
EVENTS = columns("""
    topic string?, partition int?, kind int?, producer bigint?, sequence bigint?, offset bigint?,
    at timestamp?
""")

_STARTED, _ENDED = "started", "ended"

#: Bytes that a micro-batch reads at most: 300,000 to 400,000 sends, which are compressed. All of a
#: ledger at once would exceed the memory of the JVM. It is more than `topic_source` reads, because
#: acks may wait for their records, but records are forgotten without an ack.
AT_MOST = 6 << 20

#: Bytes and rows read of each stream; `started` and `ended` once these marks were emitted.
Offset = dict[str, Any]


class LedgerSource(DataSource):  # type: ignore[misc]  # pyspark is not typed for mypy here
    """Options: `path`, the ledger's folder; `ended`, a file that exists once the run is over."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return spark_schema(EVENTS)

    def simpleStreamReader(self, schema: StructType) -> LedgerReader:  # noqa: N802  Spark's name
        return LedgerReader(Path(self.options["path"]), Path(self.options["ended"]))


class LedgerReader(SimpleDataSourceStreamReader):  # type: ignore[misc]
    """Reads the rows that were appended since an offset."""

    def __init__(self, folder: Path, ended: Path) -> None:
        self._folder = folder
        self._ended = ended

    def initialOffset(self) -> Offset:  # noqa: N802
        return {}

    def read(self, start: Offset) -> tuple[Iterator[pa.RecordBatch], Offset]:
        """Return the next whole batches since `start`, and the offset after them.

        Each stream has an equal share of `AT_MOST`, because their sends were acked side by side.
        """
        end = dict(start)
        # Checked before reading, so that every row is in this batch or an earlier one.
        over = self._ended.exists()
        batches, all_read = [], True
        if not start:
            # A row at once, because starting the first micro-batch takes seconds.
            end[_STARTED] = True
            batches.append(_mark(Kind.STARTED))
        paths = sorted(self._folder.glob(PATTERN))
        for path in paths:
            position, rows = start.get(path.name, (0, 0))
            try:
                piece, to_its_end = _next(path, position, AT_MOST // len(paths))
            except FileNotFoundError:
                continue  # the run is closing its ledger: `_check_closed` decides next time
            all_read &= to_its_end
            batches += _events(piece)
            rows += sum(batch.num_rows for batch in piece.batches)
            if piece.end > position:
                end[path.name] = [piece.end, rows]
        self._check_closed(end)
        if over and all_read and not start.get(_ENDED):
            end[_ENDED] = True
            batches.append(_mark(Kind.ENDED))
        return iter(batches), end

    def readBetweenOffsets(  # noqa: N802
        self, start: Offset, end: Offset
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows between two offsets. Raises AnalysisError if the ledger was closed."""
        if not start:
            yield _mark(Kind.STARTED)
        for name, stop in end.items():
            if name in (_STARTED, _ENDED):
                continue
            position = start.get(name, (0, 0))[0]
            if stop[0] > position:
                try:
                    yield from _events(read_piece(self._folder / name, position, stop[0]))
                except FileNotFoundError:
                    raise _closed(name) from None
        if end.get(_ENDED) and not start.get(_ENDED):
            yield _mark(Kind.ENDED)

    def _check_closed(self, offset: Mapping[str, Any]) -> None:
        """Raise AnalysisError if a table has more sends than were read of its stream."""
        for table in self._folder.glob("producer-*.parquet"):
            stream = f"_{table.stem}.arrows"
            if (self._folder / stream).exists():
                continue
            assert table_name(stream) == table.name
            rows = offset.get(stream, (0, 0))[1]
            if _recorded(table) > rows:
                raise _closed(stream)


def _next(path: Path, position: int, most: int) -> tuple[Piece, bool]:
    """Return the next batches of a stream, and whether they reach its end.

    They have at most `most` bytes, unless the first one alone has more.
    """
    size = path.stat().st_size
    while True:
        piece = read_piece(path, position, position + most)
        to_its_end = position + most >= size
        if piece.end > position or to_its_end:
            return piece, to_its_end
        most *= 2


def acked(folder: Path, topic: str, partition: int, offset: int) -> Iterator[pa.RecordBatch]:
    """Yield the acked sends so far of a partition, from an offset on, as `EVENTS`.

    Raises AnalysisError if the ledger was closed.
    """
    own = (
        (pc.field("kind") == int(Kind.ACKED))
        & (pc.field("topic") == topic)
        & (pc.field("partition") == partition)
        & (pc.field("offset") >= offset)
    )
    closed = (folder / f"_{table.stem}.arrows" for table in folder.glob("producer-*.parquet"))
    for path in sorted({*folder.glob(PATTERN), *closed}):
        try:
            piece = read_piece(path, 0)
        except FileNotFoundError:
            raise _closed(path.name) from None
        yield from (batch.filter(own) for batch in _events(piece))


def _closed(stream: str) -> AnalysisError:
    return AnalysisError(
        f"the run is over, and {stream} was closed before it was followed to its end; start the "
        "live job with the run (ackproof run --live), or judge the run with ackproof check"
    )


def _recorded(table: Path) -> int:
    """Return how many rows of a table its stream had: closing adds rows without a time."""
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
        }
        batches.append(
            pa.RecordBatch.from_arrays([pa.array(columns[n]) for n in EVENTS.names], schema=EVENTS)
        )
    return batches


def _mark(kind: Kind) -> pa.RecordBatch:
    row = {
        "topic": "",
        "partition": -1,
        "kind": int(kind),
        "producer": 0,
        "sequence": 0,
        "offset": NO_OFFSET,
        "at": 0,  # it moves no time
    }
    return pa.RecordBatch.from_pylist([row], schema=EVENTS)
