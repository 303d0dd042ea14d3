"""Compares a slice of offsets in numpy: sends that match are dropped, the rest is returned.

A send matches if an intact record of its name is at its acked offset. Each task of Spark's Python
workers compares a slice. The ledger's row groups are read once each, in the order of their lowest
offset, with a window of the log that moves along. So the memory needed depends on how much the row
groups of different producers overlap, and not on the slice's length.

    ledger, producer 1   7 at 3, 8 at 4, 9 at 6     log  3: 1/7  4: 1/8  5: 2/0  6: 2/1
    dropped              1/7 at 3, 1/8 at 4         returned  send 1/9, records 5 and 6

The result are rows of `UNMATCHED`: sends and records that do not match. Rows of kind `lookup` name
sends that match and that the checks need, too: the late ones (`SendOrder`), and those whose offset
another send was acked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs

from ackproof_spark.matching.ledger_group import (
    Bools,
    Int64s,
    Kind,
    LedgerGroup,
    SliceSummary,
    unmatched_rows,
)
from ackproof_spark.matching.log_window import NO_PRODUCER, LogReader, LogWindow
from ackproof_spark.matching.row_groups import Producers, SendGroup, TakeGeneralPath
from ackproof_spark.matching.send_order import Carry, SendOrder
from ackproof_spark.matching.slices import Slice
from ackproof_spark.tables import RecordState

#: Offsets by which the window moves after the last send.
_STEP = 1 << 18

#: Columns of the ledger that a comparison reads.
_COMPARED = ["partition", "outcome", "offset", "producer", "sequence"]


def compare_slices(
    pieces: Sequence[Slice],
    *,
    filesystem: pafs.FileSystem,
    producers: Producers,
    bounds: Int64s,
    carries: Mapping[int, Carry],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow` over indices of `pieces`, which yields `UNMATCHED`.

    `bounds` has the highest sequence in the ledger by the producer's index. `carries` has the state
    before a slice by its number, for slices that are compared again.
    """

    def compare(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for position in batch.column(0).to_pylist():
                piece = pieces[position]
                comparison = _Comparison(
                    piece,
                    filesystem=filesystem,
                    producers=producers,
                    bounds=bounds,
                    carry=carries.get(piece.number, {}),
                )
                yield from comparison.run()

    return compare


class _Comparison:
    """The comparison of one slice."""

    def __init__(
        self,
        piece: Slice,
        *,
        filesystem: pafs.FileSystem,
        producers: Producers,
        bounds: Int64s,
        carry: Carry,
    ) -> None:
        self._piece = piece
        self._filesystem = filesystem
        self._summary = SliceSummary(number=piece.number)
        self._pending: list[pa.RecordBatch] = []
        self._producers = producers
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
                producers=producers,
                aside=lambda batch: self._return(
                    Kind.RECORD, {name: batch[name] for name in batch.schema.names}
                ),
            )
            for partition in partitions
        ]
        #: The window's row of each partition; -1 for those without any record.
        self._row = np.full(max(partitions, default=0) + 2, -1, np.int64)
        self._row[partitions] = np.arange(len(partitions))

    def run(self) -> Iterator[pa.RecordBatch]:
        """Yield the slice's unmatched rows, and its summary last."""
        window, sends = self._window, self._piece.sends
        try:
            for group in sends:
                if group.first is not None and group.last is not None:
                    # No later row group has a lower offset: they are sorted.
                    if group.first - window.base > (window.end - window.base) // 2:
                        self._retire(min(group.first, window.end))
                    self._load(min(group.last + 1, self._end))
                self._match(group)
                yield from self._flush()
            self._retire(window.end)
            while window.end < self._end:
                self._load(min(window.end + max(1, _STEP // len(self._readers)), self._end))
                self._retire(window.end)
                yield from self._flush()
            yield from self._flush()
        except TakeGeneralPath as reason:
            self._summary.unaligned = str(reason)
        self._summary.order = self._order.summary()
        summary = pa.array([json.dumps(asdict(self._summary))])
        yield unmatched_rows(Kind.SUMMARY, {"summary": summary})

    def _return(self, kind: Kind, columns: Mapping[str, pa.Array]) -> None:
        self._queue(kind, unmatched_rows(kind, columns))

    def _queue(self, kind: Kind, batch: pa.RecordBatch) -> None:
        self._summary.returned[kind] = self._summary.returned.get(kind, 0) + batch.num_rows
        self._pending.append(batch)

    def _flush(self) -> Iterator[pa.RecordBatch]:
        yield from self._pending
        self._pending.clear()

    def _load(self, end: int) -> None:
        """Load the log up to offset `end` into the window."""
        if end <= self._window.end:
            return
        self._window.extend(end)
        for row, reader in enumerate(self._readers):
            for records in reader.take(end):
                self._window.put(row, records)

    def _match(self, group: SendGroup) -> None:
        """Match a row group's sends with the window; return those that do not match."""
        owned = (group.path, group.number) in self._piece.owned
        with LedgerGroup(group, self._filesystem, _COMPARED) as sends:
            counts, acked = sends.outcomes()
            if owned:
                for outcome, count in counts.items():
                    self._summary.outcomes[outcome] = self._summary.outcomes.get(outcome, 0) + count
            unmatched = self._unmatched(group, sends, acked, owned=owned)
            if len(unmatched):
                self._queue(Kind.SEND, sends.select(unmatched))

    def _unmatched(
        self, group: SendGroup, sends: LedgerGroup, acked: Bools | None, *, owned: bool
    ) -> Int64s:
        """Return this slice's rows without a match; if owned, also those without an offset."""
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
        unmatched = [adrift] if owned else []
        row = self._row[np.clip(sends.partition, -1, len(self._row) - 1)]
        sequence = sends.sequence
        producer = self._producers.indices(np.atleast_1d(sends.producer))
        one = len(producer) == 1  # for all sends, or of the only one
        if rows is not None:
            offset, row, sequence = offset[rows], row[rows], sequence[rows]
            producer = producer if one else producer[rows]
        beyond = (row < 0) | (offset < low) | (offset >= window.end)
        if beyond.any():
            every = np.arange(group.rows) if rows is None else rows
            unmatched.append(every[beyond])
            rows, row, offset, sequence = (
                every[~beyond],
                row[~beyond],
                offset[~beyond],
                sequence[~beyond],
            )
            producer = producer if one else producer[~beyond]
        at = row * window.width + (offset - window.base)
        matched = (window.sequence.reshape(-1)[at] == sequence) & (
            window.producer.reshape(-1)[at] == producer
        )
        if matched.all():
            window.matched.reshape(-1)[at] = True
        else:
            window.matched.reshape(-1)[at[matched]] = True
            window.contested.reshape(-1)[at[~matched]] = True
            unmatched.append(np.flatnonzero(~matched) if rows is None else rows[~matched])
        return np.sort(np.concatenate(unmatched)) if unmatched else np.arange(0)

    def _retire(self, before: int) -> None:
        """Return the unmatched records before an offset, and drop that part of the window."""
        window = self._window
        if before <= window.base:
            return
        upto = slice(0, before - window.base)
        for row, partition in enumerate(window.partitions):
            producer, sequence = window.producer[row, upto], window.sequence[row, upto]
            matched = window.matched[row, upto]
            present = producer != NO_PRODUCER
            contested = np.flatnonzero(window.contested[row, upto] & matched)
            for at in contested:
                # A copy: the window is overwritten before Arrow reads its view.
                self._look_up(int(producer[at]), sequence[[at]])
            if not matched.all():
                left = np.flatnonzero(present & ~matched)
                if len(left):
                    self._return_left(partition, window.base + left, producer[left], sequence[left])
                here = np.flatnonzero(present)
                producer, sequence, matched = producer[here], sequence[here], matched[here]
            for number, sequences in self._order.advance(row, producer, sequence, matched):
                self._look_up(number, sequences)
        window.drop(before)

    def _return_left(
        self, partition: int, offset: Int64s, producer: npt.NDArray[np.uint16], sequence: Int64s
    ) -> None:
        rows = len(offset)
        self._return(
            Kind.RECORD,
            {
                "topic": pa.repeat(pa.scalar(self._piece.topic), rows),
                "partition": pa.repeat(pa.scalar(partition, pa.int32()), rows),
                "offset": pa.array(offset),
                "producer": pa.array(self._producers.numbers(producer.astype(np.int64))),
                "sequence": pa.array(sequence),
                "state": pa.repeat(pa.scalar(RecordState.INTACT.value), rows),
            },
        )

    def _look_up(self, producer: int, sequences: Int64s) -> None:
        rows, number = len(sequences), self._producers.number(producer)
        if rows:
            self._return(
                Kind.LOOKUP,
                {
                    "topic": pa.repeat(pa.scalar(self._piece.topic), rows),
                    "producer": pa.repeat(pa.scalar(number, pa.int64()), rows),
                    "sequence": pa.array(sequences),
                },
            )
