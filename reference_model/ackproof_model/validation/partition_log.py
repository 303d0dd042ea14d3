"""A replica's log as the runs of offsets that each leader epoch wrote, not as records.

The epochs are those of Kafka's LeaderEpochFileCache (`epoch_cache`), without those that have no
record. What a leader epoch wrote is the same in every replica that has it: one leader an epoch, and
followers append its bytes. So a log is known by its epochs and its end.
"""

from __future__ import annotations

import sys
from itertools import zip_longest
from typing import NamedTuple

from ackproof_model.kafka.epoch_cache import Epochs, assign, truncate_from_end

#: The end of what is not bounded.
OPEN = sys.maxsize


class Log(NamedTuple):
    """A log from offset 0 up to, not including, `end`."""

    epochs: Epochs = ()
    end: int = 0

    def cut(self, end: int) -> Log:
        """Return what is left if it ends at an offset, or earlier."""
        return self if end >= self.end else Log(truncate_from_end(self.epochs, end), end)

    def written(self, epoch: int, end: int) -> Log:
        """Return the log after the leader of an epoch wrote up to `end`."""
        return self if end == self.end else Log(assign(self.epochs, epoch, self.end), end)

    def __str__(self) -> str:
        if not self.epochs:
            return "empty"
        ends = [start for _, start in self.epochs[1:]] + [self.end]
        runs = (
            f"{start}-{'' if end == OPEN else end - 1} of epoch {epoch}"
            for (epoch, start), end in zip(self.epochs, ends, strict=True)
        )
        return ", ".join(runs)


def common(one: Log, other: Log) -> int:
    """Return up to which offset two logs are the same."""
    for mine, yours in zip_longest(one.epochs, other.epochs, fillvalue=(OPEN, OPEN)):
        if mine != yours:
            return min(mine[1], yours[1], one.end, other.end)
    return min(one.end, other.end)
