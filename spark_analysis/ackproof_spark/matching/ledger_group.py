"""A row group of the ledger, read column by column, and the rows that do not match.

Rows of ledger and final log share the schema `UNMATCHED`; their `kind` distinguishes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ackproof_spark.matching.log_window import integers
from ackproof_spark.matching.row_groups import Int64s, SendGroup
from ackproof_spark.tables import FINAL_LOG, LEDGER, Outcome


class Kind(StrEnum):
    SEND = "send"
    RECORD = "record"
    LOOKUP = "lookup"
    SUMMARY = "summary"


#: Columns of the ledger and of the final log; `summary` is a slice's `SliceSummary` as JSON.
UNMATCHED = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        *(field.with_nullable(True) for field in list(LEDGER)[2:]),
        *(FINAL_LOG.field(name).with_nullable(True) for name in ("state", "size", "head")),
        pa.field("summary", pa.string()),
    ]
)


@dataclass(slots=True, kw_only=True)
class SliceSummary:
    """Counts of one slice.

    `outcomes`: sends by outcome, of its owned row groups. `returned`: returned rows by kind.
    `order`: `SendOrder.summary`. `unaligned`: why the slice cannot be compared by offset.
    """

    number: int
    outcomes: dict[str, int] = field(default_factory=dict)
    returned: dict[str, int] = field(default_factory=dict)
    order: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    unaligned: str | None = None


def unmatched_rows(kind: Kind, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    rows = len(next(iter(columns.values())))
    arrays = []
    for expected in UNMATCHED:
        column = columns.get(expected.name)
        if expected.name == "kind":
            arrays.append(pa.repeat(pa.scalar(kind.value), rows))
        elif column is None:
            arrays.append(pa.nulls(rows, expected.type))
        else:
            arrays.append(column if column.type == expected.type else column.cast(expected.type))
    return pa.RecordBatch.from_arrays(arrays, schema=UNMATCHED)


Bools = npt.NDArray[np.bool_]

#: Columns of few distinct texts, read as dictionaries, because a million strings are slow.
_WORDS = ["topic", "outcome", "error"]


class LedgerGroup:
    """One row group of the ledger; columns beyond the first are read for returned rows only."""

    def __init__(
        self, group: SendGroup, filesystem: pafs.FileSystem, columns: Sequence[str]
    ) -> None:
        self._group = group
        self._file = pq.ParquetFile(
            group.path,
            filesystem=filesystem,
            read_dictionary=_WORDS,
            pre_buffer=False,
            page_checksum_verification=True,
        )
        self._table = self._read([name for name in columns if name not in group.constant])

    def __enter__(self) -> LedgerGroup:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _read(self, names: list[str]) -> pa.Table:
        return self._file.read_row_group(
            self._group.number, columns=names, use_threads=False
        ).combine_chunks()

    def _integers(self, name: str) -> npt.NDArray[np.signedinteger]:
        """Return a column of integers, -1 for null."""
        known = self._group.constant.get(name)
        if known is not None:
            return np.full(self._group.rows, known)
        return integers(self._table[name].chunk(0))

    @property
    def offset(self) -> Int64s:
        """The acked offset of each send, -1 if unknown."""
        return self._integers("offset")

    @property
    def sequence(self) -> Int64s:
        return self._integers("sequence")

    @property
    def partition(self) -> npt.NDArray[np.signedinteger]:
        return self._integers("partition")

    @property
    def producer(self) -> Int64s | np.int64:
        """The producer of each send, or one number if it is the same for all."""
        known = self._group.constant.get("producer")
        return self._integers("producer") if known is None else np.int64(known)

    def outcomes(self) -> tuple[dict[str, int], Bools | None]:
        """Return the numbers of sends by outcome, and which sends are acked (None: all)."""
        rows = self._group.rows
        known = self._group.constant.get("outcome")
        if known is not None:
            return {known: rows}, None if known == Outcome.ACKED else np.zeros(rows, np.bool_)
        column = self._table["outcome"].chunk(0)
        words, codes = column.dictionary.to_pylist(), column.indices.to_numpy()
        counts = np.bincount(codes, minlength=len(words)).tolist()
        acked = words.index(Outcome.ACKED) if Outcome.ACKED in words else -1
        return dict(zip(words, counts, strict=True)), codes == acked

    def select(self, rows: Int64s) -> pa.RecordBatch:
        """Return these rows with all columns, as `UNMATCHED`."""
        at = pa.array(rows)
        columns = {name: self._table[name].take(at) for name in self._table.column_names}
        others = [
            name for name in LEDGER.names[2:] if name not in {*columns, *self._group.constant}
        ]
        rest = self._read(others).take(at)
        columns |= {name: rest[name] for name in others}
        arrays = {name: column.combine_chunks() for name, column in columns.items()}
        for name, value in self._group.constant.items():
            arrays[name] = pa.repeat(pa.scalar(value, LEDGER.field(name).type), len(rows))
        return unmatched_rows(Kind.SEND, arrays)


def find_sends(
    groups: Sequence[Sequence[SendGroup]],
    names: Mapping[tuple[str, int], Int64s],
    *,
    filesystem: pafs.FileSystem,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow` over indices of `groups`, which yields sends by name.

    `names` are sequences by topic and producer. Only row groups that may contain some are read.
    """

    def find(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for position in batch.column(0).to_pylist():
                for group in groups[position]:
                    yield from _find(group)

    def _find(group: SendGroup) -> Iterator[pa.RecordBatch]:
        sequences_by_producer = sequences_in(group, names)
        if not sequences_by_producer:
            return
        with LedgerGroup(group, filesystem, ["producer", "sequence"]) as sends:
            producer, sequence = sends.producer, sends.sequence
            named = np.zeros(group.rows, np.bool_)
            for number, sequences in sequences_by_producer.items():
                named |= (producer == number) & np.isin(sequence, sequences)
            if named.any():
                yield sends.select(np.flatnonzero(named))

    return find


def sequences_in(group: SendGroup, names: Mapping[tuple[str, int], Int64s]) -> dict[int, Int64s]:
    """Return by producer the sequences that a row group may contain, by its statistics."""
    low, high = group.sequences
    sequences_by_producer = {}
    for (topic, producer), sequences in names.items():
        if topic == group.topics[0] and group.producers[0] <= producer <= group.producers[1]:
            here = sequences[(sequences >= low) & (sequences <= high)]
            if len(here):
                sequences_by_producer[producer] = here
    return sequences_by_producer
