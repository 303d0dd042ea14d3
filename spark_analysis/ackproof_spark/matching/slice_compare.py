"""One slice of offsets compared in numpy: what matches perfectly is dropped, the rest is told.

A send matches perfectly if it was acked at an offset where an intact record of its name stands.
Runs in Spark's Python workers, one slice a task. The ledger's row groups are read once each, in
the order of their lowest offset, beside a window of the log that moves along; so memory holds as
much of the log as row groups of different producers overlap, whatever the slice's length.

    ledger, producer 1   7 at 3, 8 at 4, 9 at 6     log  3: 1/7  4: 1/8  5: 2/0  6: 2/1
    dropped              1/7 at 3, 1/8 at 4         told  send 1/9, records 5 and 6

Told are rows of `FOUND`: sends and records that do not match; and as `wanted` the names of some
that do, because a check needs to see them: those that `SendOrder` names, and a send whose offset
another send claims as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ackproof_spark.matching.log_window import (
    NOBODY,
    LogReader,
    LogWindow,
    integers,
)
from ackproof_spark.matching.row_groups import SendGroup, Slice, Unaligned
from ackproof_spark.matching.send_order import Carry, SendOrder
from ackproof_spark.tables import (
    FINAL_LOG,
    LEDGER,
    Outcome,
    RecordState,
)

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: Offsets that the window moves on at once where no send leads.
_STEP = 1 << 18

#: What a comparison reads of the ledger.
_COMPARED = ["partition", "outcome", "offset", "producer", "sequence"]

#: Columns of few distinct texts: a million strings cost more to make than all else to read.
_WORDS = ["topic", "outcome", "error"]


class Kind(StrEnum):
    """What a row of `FOUND` is."""

    SEND = "send"
    RECORD = "record"
    WANTED = "wanted"
    SUMMARY = "summary"


#: What the pass tells: rows of the ledger and of the final log, told apart by `kind`. `summary`
#: is JSON: a slice's `Summary`.
FOUND = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        *(field.with_nullable(True) for field in list(LEDGER)[2:]),
        *(FINAL_LOG.field(name).with_nullable(True) for name in ("state", "size", "head")),
        pa.field("summary", pa.string()),
    ]
)


@dataclass(slots=True, kw_only=True)
class Summary:
    """What a slice tells of itself, one a slice.

    `outcomes`: sends by outcome, of the row groups it owns. `told`: rows by kind. `order`: what
    `SendOrder.summary` says. `unaligned`: why the slice cannot be compared like this.
    """

    number: int
    outcomes: dict[str, int] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    order: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    unaligned: str | None = None


def compare_slices(
    pieces: Sequence[Slice],
    *,
    filesystem: pafs.FileSystem,
    highest: Mapping[int, int],
    carries: Mapping[int, Carry],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow` over positions in `pieces`, which yields `FOUND`.

    `highest` bounds each producer's sequences in the ledger. `carries` says, by a slice's number,
    what stands before it, if it is looked at again because of that.
    """

    def compare(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for position in batch.column(0).to_pylist():
                piece = pieces[position]
                comparison = _Comparison(
                    piece,
                    filesystem=filesystem,
                    highest=highest,
                    carry=carries.get(piece.number, {}),
                )
                yield from comparison.run()

    return compare


def find_sends(
    groups: Sequence[Sequence[SendGroup]],
    names: Mapping[tuple[str, int], Int64s],
    *,
    filesystem: pafs.FileSystem,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow` over positions in `groups`: sends of these names.

    `names` are sequences by topic and producer. Only row groups that may have one are read.
    """

    def find(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for position in batch.column(0).to_pylist():
                for group in groups[position]:
                    yield from _find(group)

    def _find(group: SendGroup) -> Iterator[pa.RecordBatch]:
        wanted = wanted_of(group, names)
        if not wanted:
            return
        with _Sends(group, filesystem, ["producer", "sequence"]) as sends:
            producer, sequence = sends.producer, sends.sequence
            found = np.zeros(group.rows, np.bool_)
            for who, sequences in wanted.items():
                found |= (producer == who) & np.isin(sequence, sequences)
            if found.any():
                yield sends.told(np.flatnonzero(found))

    return find


def wanted_of(group: SendGroup, names: Mapping[tuple[str, int], Int64s]) -> dict[int, Int64s]:
    """Return, by producer, the sequences that a row group may have, by its statistics."""
    low, high = group.sequences
    wanted = {}
    for (topic, producer), sequences in names.items():
        if topic == group.topics[0] and group.producers[0] <= producer <= group.producers[1]:
            here = sequences[(sequences >= low) & (sequences <= high)]
            if len(here):
                wanted[producer] = here
    return wanted


def _found(kind: Kind, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    rows = len(next(iter(columns.values())))
    arrays = []
    for wanted in FOUND:
        column = columns.get(wanted.name)
        if wanted.name == "kind":
            arrays.append(pa.repeat(pa.scalar(kind.value), rows))
        elif column is None:
            arrays.append(pa.nulls(rows, wanted.type))
        else:
            arrays.append(column if column.type == wanted.type else column.cast(wanted.type))
    return pa.RecordBatch.from_arrays(arrays, schema=FOUND)


class _Sends:
    """One row group of the ledger: some columns at once, the others if rows are to be told."""

    def __init__(
        self, group: SendGroup, filesystem: pafs.FileSystem, columns: Sequence[str]
    ) -> None:
        self._group = group
        self._file = pq.ParquetFile(
            group.path, filesystem=filesystem, read_dictionary=_WORDS, pre_buffer=False
        )
        self._table = self._read([name for name in columns if name not in group.constant])

    def __enter__(self) -> _Sends:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _read(self, names: list[str]) -> pa.Table:
        return self._file.read_row_group(
            self._group.number, columns=names, use_threads=False
        ).combine_chunks()

    def _integers(self, name: str) -> npt.NDArray[np.signedinteger]:
        """Return a column of integers; where it is null, -1."""
        known = self._group.constant.get(name)
        if known is not None:
            return np.full(self._group.rows, known)
        return integers(self._table[name].chunk(0))

    @property
    def offset(self) -> Int64s:
        """Where each send was acked, -1 if unknown."""
        return self._integers("offset")

    @property
    def sequence(self) -> Int64s:
        """The sequence of each send."""
        return self._integers("sequence")

    @property
    def partition(self) -> npt.NDArray[np.signedinteger]:
        """The partition of each send."""
        return self._integers("partition")

    @property
    def producer(self) -> Int64s | np.int64:
        """The producer of each send, or the one of all."""
        known = self._group.constant.get("producer")
        return self._integers("producer") if known is None else np.int64(known)

    def outcomes(self) -> tuple[dict[str, int], Bools | None]:
        """Return how many sends have each outcome, and which are acked (None: all)."""
        rows = self._group.rows
        known = self._group.constant.get("outcome")
        if known is not None:
            return {known: rows}, None if known == Outcome.ACKED else np.zeros(rows, np.bool_)
        column = self._table["outcome"].chunk(0)
        words, codes = column.dictionary.to_pylist(), column.indices.to_numpy()
        counts = np.bincount(codes, minlength=len(words)).tolist()
        acked = words.index(Outcome.ACKED) if Outcome.ACKED in words else -1
        return dict(zip(words, counts, strict=True)), codes == acked

    def told(self, rows: Int64s) -> pa.RecordBatch:
        """Return whole rows as `FOUND` has them."""
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
        return _found(Kind.SEND, arrays)


class _Comparison:
    """The comparison of one slice."""

    def __init__(
        self,
        piece: Slice,
        *,
        filesystem: pafs.FileSystem,
        highest: Mapping[int, int],
        carry: Carry,
    ) -> None:
        self._piece = piece
        self._filesystem = filesystem
        self._summary = Summary(number=piece.number)
        self._untold: list[pa.RecordBatch] = []
        bounds = np.full(max(highest, default=-1) + 1, -1, np.int64)
        bounds[list(highest)] = list(highest.values())
        partitions = sorted(piece.log_ends)
        self._order = SendOrder(partitions, bounds, carry)
        first = min((group.first for group in piece.records), default=0)
        last = max((group.last for group in piece.records), default=-1)
        begin = first if piece.begin is None else max(first, piece.begin)
        self._end = last + 1 if piece.end is None else min(last + 1, piece.end)
        self._window = LogWindow(partitions, begin)
        self._readers = [
            LogReader(
                [group for group in piece.records if group.partition == partition],
                filesystem=filesystem,
                begin=begin,
                end=self._end,
                producers=len(bounds),
                aside=lambda batch: self._tell(
                    Kind.RECORD, {name: batch[name] for name in batch.schema.names}
                ),
            )
            for partition in partitions
        ]
        #: The window's row of each partition; -1 for those without any record.
        self._row = np.full(max(partitions, default=0) + 2, -1, np.int64)
        self._row[partitions] = np.arange(len(partitions))

    def run(self) -> Iterator[pa.RecordBatch]:
        """Yield all that the slice has to tell; its summary last."""
        window, sends = self._window, self._piece.sends
        try:
            for group in sends:
                if group.first is not None and group.last is not None:
                    # No later row group has a lower offset: they come in that order.
                    if group.first - window.base > (window.end - window.base) // 2:
                        self._retire(min(group.first, window.end))
                    self._load(min(group.last + 1, self._end))
                self._match(group)
                yield from self._told()
            self._retire(window.end)
            while window.end < self._end:
                self._load(min(window.end + max(1, _STEP // len(self._readers)), self._end))
                self._retire(window.end)
                yield from self._told()
            yield from self._told()
        except Unaligned as reason:
            self._summary.unaligned = str(reason)
        self._summary.order = self._order.summary()
        yield _found(Kind.SUMMARY, {"summary": pa.array([json.dumps(asdict(self._summary))])})

    def _tell(self, kind: Kind, columns: Mapping[str, pa.Array]) -> None:
        batch = _found(kind, columns)
        self._summary.told[kind] = self._summary.told.get(kind, 0) + batch.num_rows
        self._untold.append(batch)

    def _told(self) -> Iterator[pa.RecordBatch]:
        yield from self._untold
        self._untold.clear()

    def _load(self, end: int) -> None:
        """Have the log up to offset `end` in the window."""
        if end <= self._window.end:
            return
        self._window.extend(end)
        for row, reader in enumerate(self._readers):
            for records in reader.take(end):
                self._window.put(row, records)

    def _match(self, group: SendGroup) -> None:
        """Match a row group's sends with the window; tell those that do not."""
        owned = (group.path, group.number) in self._piece.owned
        with _Sends(group, self._filesystem, _COMPARED) as sends:
            counts, acked = sends.outcomes()
            if owned:
                for outcome, count in counts.items():
                    self._summary.outcomes[outcome] = self._summary.outcomes.get(outcome, 0) + count
            unmatched = self._unmatched(group, sends, acked, owned=owned)
            if len(unmatched):
                batch = sends.told(unmatched)
                self._summary.told[Kind.SEND] = (
                    self._summary.told.get(Kind.SEND, 0) + batch.num_rows
                )
                self._untold.append(batch)

    def _unmatched(
        self, group: SendGroup, sends: _Sends, acked: Bools | None, *, owned: bool
    ) -> Int64s:
        """Return which rows do not match: those of this slice, and if owned those of none."""
        if group.first is None or group.last is None:
            return np.arange(group.rows) if owned else np.arange(0)
        begin, end, window = self._piece.begin, self._piece.end, self._window
        offset = sends.offset
        rows: Int64s | None = None  # None: all
        adrift = np.arange(0)
        if acked is not None or group.without_offset:
            placed = offset >= 0 if acked is None else acked & (offset >= 0)
            rows, adrift = np.flatnonzero(placed), np.flatnonzero(~placed)
        low = window.base if begin is None else max(window.base, begin)
        if (begin is not None and group.first < begin) or (end is not None and group.last >= end):
            here = np.ones(group.rows, np.bool_) if rows is None else placed
            if begin is not None:
                here = here & (offset >= begin)
            if end is not None:
                here = here & (offset < end)
            rows = np.flatnonzero(here)
        told = [adrift] if owned else []
        row = self._row[np.clip(sends.partition, -1, len(self._row) - 1)]
        sequence, producer = sends.sequence, sends.producer
        if rows is not None:
            offset, row, sequence = offset[rows], row[rows], sequence[rows]
            producer = producer[rows] if isinstance(producer, np.ndarray) else producer
        beyond = (row < 0) | (offset < low) | (offset >= window.end)
        if beyond.any():
            every = np.arange(group.rows) if rows is None else rows
            told.append(every[beyond])
            rows, row, offset, sequence = (
                every[~beyond],
                row[~beyond],
                offset[~beyond],
                sequence[~beyond],
            )
            producer = producer[~beyond] if isinstance(producer, np.ndarray) else producer
        at = row * window.width + (offset - window.base)
        matched = (window.sequence.reshape(-1)[at] == sequence) & (
            window.producer.reshape(-1)[at] == producer
        )
        if matched.all():
            window.matched.reshape(-1)[at] = True
        else:
            window.matched.reshape(-1)[at[matched]] = True
            window.contested.reshape(-1)[at[~matched]] = True
            told.append(np.flatnonzero(~matched) if rows is None else rows[~matched])
        return np.sort(np.concatenate(told)) if told else np.arange(0)

    def _retire(self, before: int) -> None:
        """Tell what is left of the window before an offset, and forget it."""
        window = self._window
        if before <= window.base:
            return
        upto = slice(0, before - window.base)
        for row, partition in enumerate(window.partitions):
            producer, sequence = window.producer[row, upto], window.sequence[row, upto]
            matched = window.matched[row, upto]
            stands = producer != NOBODY
            contested = np.flatnonzero(window.contested[row, upto] & matched)
            for at in contested:
                # A copy: the window is overwritten before Arrow's view of it would be read.
                self._want(int(producer[at]), sequence[[at]])
            if not matched.all():
                left = np.flatnonzero(stands & ~matched)
                if len(left):
                    self._leave(partition, window.base + left, producer[left], sequence[left])
                here = np.flatnonzero(stands)
                producer, sequence, matched = producer[here], sequence[here], matched[here]
            for who, sequences in self._order.advance(row, producer, sequence, matched):
                self._want(who, sequences)
        window.drop(before)

    def _leave(
        self, partition: int, offset: Int64s, producer: npt.NDArray[np.uint16], sequence: Int64s
    ) -> None:
        rows = len(offset)
        self._tell(
            Kind.RECORD,
            {
                "topic": pa.repeat(pa.scalar(self._piece.topic), rows),
                "partition": pa.repeat(pa.scalar(partition, pa.int32()), rows),
                "offset": pa.array(offset),
                "producer": pa.array(producer.astype(np.int64)),
                "sequence": pa.array(sequence),
                "state": pa.repeat(pa.scalar(RecordState.INTACT.value), rows),
            },
        )

    def _want(self, producer: int, sequences: Int64s) -> None:
        rows = len(sequences)
        if rows:
            self._tell(
                Kind.WANTED,
                {
                    "topic": pa.repeat(pa.scalar(self._piece.topic), rows),
                    "producer": pa.repeat(pa.scalar(producer, pa.int64()), rows),
                    "sequence": pa.array(sequences),
                },
            )
