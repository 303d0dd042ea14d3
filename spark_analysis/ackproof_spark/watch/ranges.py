"""A set of whole numbers as ranges: offsets or sequences, of which most are neighbours."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

#: Ranges of one set. Of more, the gaps between the lowest are closed.
MOST = 1000

#: Above every offset and sequence.
NO_END = 2**62


class Ranges:
    """Numbers as ranges, in ascending order; the end of a range is exclusive."""

    __slots__ = ("begins", "ends")

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()) -> None:
        ordered = np.array(sorted(pairs), np.int64).reshape(-1, 2)
        self.begins, self.ends = ordered[:, 0], ordered[:, 1]

    def pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.begins.tolist(), self.ends.tolist(), strict=True))

    def has(self, numbers: Int64s) -> npt.NDArray[np.bool_]:
        """Return which of the numbers are in the set."""
        if not len(self.begins):
            return np.zeros(len(numbers), np.bool_)
        place = np.searchsorted(self.begins, numbers, "right") - 1
        return (place >= 0) & (numbers < self.ends[np.maximum(place, 0)])

    def add(self, numbers: Int64s, *, keep: int = NO_END) -> None:
        """Add numbers. Gaps that reach above `keep` stay, even if there are more than `MOST`."""
        if not len(numbers):
            return
        numbers = np.sort(numbers, kind="stable")  # the quick one for what is nearly sorted
        breaks = np.flatnonzero(np.diff(numbers) > 1)
        begins = np.concatenate([self.begins, numbers[np.append(0, breaks + 1)]])
        ends = np.concatenate([self.ends, numbers[np.append(breaks, len(numbers) - 1)] + 1])
        order = np.argsort(begins, kind="stable")
        begins, ends = begins[order], np.maximum.accumulate(ends[order])
        first = np.append(True, begins[1:] > ends[:-1])
        self.begins = begins[first]
        self.ends = ends[np.append(np.flatnonzero(first)[1:] - 1, len(ends) - 1)]
        closable = int(np.searchsorted(self.begins, keep, "right")) - 1
        if (excess := min(len(self.begins) - MOST, closable)) > 0:
            self.begins = np.append(self.begins[0], self.begins[excess + 1 :])
            self.ends = self.ends[excess:]

    def remove(self, begin: int, end: int) -> None:
        if begin >= end:
            return
        left, right = self.begins < begin, self.ends > end
        begins = np.concatenate([self.begins[left], np.maximum(self.begins[right], end)])
        ends = np.concatenate([np.minimum(self.ends[left], begin), self.ends[right]])
        order = np.argsort(begins, kind="stable")
        self.begins, self.ends = begins[order], ends[order]
