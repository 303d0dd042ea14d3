"""Producers' numbers as indices of small arrays: the probe's follow those of the workload.

number    0  1  2   1,000,000  1,000,001
index     0  1  2           3          4
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ackproof_spark.tables import PROBE_PRODUCERS

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Producers:
    """How many numbers the producers of the workload have, and those of the probe."""

    workload: int
    probe: int

    @property
    def count(self) -> int:
        return self.workload + self.probe

    def indices(self, numbers: Int64s) -> Int64s:
        """Return the index of each number; a negative one for a number that no producer has."""
        if not len(numbers) or numbers.max() < self.workload:
            return numbers
        of_probe = numbers - PROBE_PRODUCERS
        known = (of_probe >= 0) & (of_probe < self.probe)
        return np.where(
            numbers < self.workload, numbers, np.where(known, of_probe + self.workload, -1)
        )

    def numbers(self, indices: Int64s) -> Int64s:
        """Return the number of each index."""
        if not self.probe:
            return indices
        return np.where(indices < self.workload, indices, indices - self.workload + PROBE_PRODUCERS)

    def number(self, index: int) -> int:
        return int(self.numbers(np.array([index]))[0])
