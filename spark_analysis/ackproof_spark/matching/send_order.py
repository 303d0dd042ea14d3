"""The order of a producer's sequences in the log, slice by slice.

A record is late if it follows a higher sequence of its producer in its partition. The check
`reordered` excludes further copies and records without a send, which are not known here. So there
are two running maxima: of all records that may have been sent (`sent`), and of those that matched
their send (`matched`). Every record below the first maximum is returned, with the record of the
second maximum. That includes every late record and the record that it follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ackproof_spark.matching.row_groups import Int64s, TakeGeneralPath

Bools = npt.NDArray[np.bool_]

#: By partition and producer: the highest sequence `sent` and `matched` before a slice.
Carry = Mapping[tuple[int, int], tuple[int, int]]

_NONE = -1
_HIGHEST = np.iinfo(np.int64).max

#: The most pairs of partition and producer that a task tracks.
_MOST = 4_000_000


class SendOrder:
    """Running maxima and minima of a slice's sequences, by partition and producer.

    Producers are indices (`Producers`). `bounds` has the highest sequence of each in the ledger;
    higher ones were never sent.
    """

    def __init__(self, partitions: Sequence[int], bounds: Int64s, carry: Carry) -> None:
        shape = (len(partitions), len(bounds))
        if shape[0] * shape[1] > _MOST:
            raise TakeGeneralPath(f"{shape[0]} partitions times {shape[1]} producers are too many")
        self._partitions = tuple(partitions)
        self._bounds = bounds
        self._sent = np.full(shape, _NONE, np.int64)
        self._matched = np.full(shape, _NONE, np.int64)
        self._low_matched = np.full(shape, _HIGHEST, np.int64)
        self._low_unmatched = np.full(shape, _HIGHEST, np.int64)
        for (partition, producer), before in carry.items():
            at = self._partitions.index(partition), producer
            self._sent[at], self._matched[at] = before

    def advance(
        self, row: int, producer: npt.NDArray[np.uint16], sequence: Int64s, matched: Bools
    ) -> Iterator[tuple[int, Int64s]]:
        """Process a partition's next records, in log order; yield names (producer, sequences).

        The names are those of matched records that are late, and of the highest matched record
        before each late record.
        """
        if not matched.all():
            sent = matched | (sequence <= self._bounds[producer])
            producer, sequence, matched = producer[sent], sequence[sent], matched[sent]
        if not len(producer):
            return
        by_producer = np.argsort(producer, kind="stable")
        producer, sequence = producer[by_producer], sequence[by_producer]
        matched = matched[by_producer]
        starts = np.flatnonzero(np.r_[True, producer[1:] != producer[:-1]])
        ends = np.r_[starts[1:], len(producer)]
        whole = bool(matched.all())
        falls = sequence[1:] < sequence[:-1]
        falls[starts[1:] - 1] = False
        rising = not falls.any()
        for start, end in zip(starts, ends, strict=True):
            number = int(producer[start])
            part, own = sequence[start:end], matched[start:end]
            rises = rising or not falls[start : end - 1].any()
            if not rises or part[0] < self._sent[row, number]:
                yield number, self._behind(row, number, part, own)
            if whole:
                self._note(row, number, part, part[:0])
            else:
                self._note(row, number, part[own], part[~own])

    def _behind(self, row: int, producer: int, sequence: Int64s, matched: Bools) -> Int64s:
        before = _running(self._sent[row, producer], sequence)
        highest_matched = _running(
            self._matched[row, producer], np.where(matched, sequence, np.int64(_NONE))
        )
        behind = sequence < before
        ahead = highest_matched[behind & (sequence < highest_matched)]
        return np.unique(np.r_[sequence[behind & matched], ahead])

    def _note(self, row: int, producer: int, matched: Int64s, unmatched: Int64s) -> None:
        at = row, producer
        if len(matched):
            highest = matched.max()
            self._matched[at] = max(self._matched[at], highest)
            self._sent[at] = max(self._sent[at], highest)
            self._low_matched[at] = min(self._low_matched[at], matched.min())
        if len(unmatched):
            self._sent[at] = max(self._sent[at], unmatched.max())
            self._low_unmatched[at] = min(self._low_unmatched[at], unmatched.min())

    def summary(self) -> list[tuple[int, int, int, int, int, int]]:
        """Return partition, producer, and four sequences for each.

        These are the lowest matched and unmatched, and the highest sent and matched sequences.
        """
        met = np.argwhere(self._sent != _NONE).tolist()
        return [
            (
                self._partitions[row],
                producer,
                int(self._low_matched[row, producer]),
                int(self._low_unmatched[row, producer]),
                int(self._sent[row, producer]),
                int(self._matched[row, producer]),
            )
            for row, producer in met
        ]


def _running(before: np.int64, values: Int64s) -> Int64s:
    """Return the highest value before each one."""
    running: Int64s = np.maximum.accumulate(np.r_[before, values])[:-1]
    return running
