"""Sends without an outcome, and the time of each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

_SETTLED = 0


class InFlight:
    """A window over sequences, which slides as the oldest sends settle, and grows if they do not.

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
        kept = self._sent_at[oldest - self._first :]
        self._first = oldest
        self._sent_at = np.zeros(capacity, np.int64)
        self._sent_at[: len(kept)] = kept

    def hand_over(self, sequences: Int64s, at: int | Int64s) -> None:
        """Note that admitted `sequences` were sent at `at`, microseconds UTC."""
        self._sent_at[sequences - self._first] = at
        self.count += len(sequences)

    def settle(self, sequences: Int64s) -> Int64s:
        """Remove `sequences` and return when they were sent."""
        positions = sequences - self._first
        sent_at = self._sent_at[positions]
        self._sent_at[positions] = _SETTLED
        self.count -= len(sequences)
        return sent_at

    def rest(self) -> Int64s:
        """Return the sequences in flight, ascending."""
        return np.flatnonzero(self._sent_at).astype(np.int64) + self._first
