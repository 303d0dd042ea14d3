"""A replica's log as the offset range of each leader epoch, without its records.

The epochs are those of Kafka's LeaderEpochFileCache (`kafka.epoch_cache`), without empty ones. An
epoch has one leader, and followers append its bytes, so the records of an epoch are the same in
every replica. A log is therefore determined by its epochs and its end offset.
"""

from __future__ import annotations

import sys
from itertools import zip_longest
from typing import NamedTuple

from ackproof_model.kafka.epoch_cache import Epochs, assign, truncate_from_end

#: The end offset of a log that is not bounded.
OPEN = sys.maxsize


class Log(NamedTuple):
    """A log from offset 0 up to `end`, exclusive."""

    epochs: Epochs = ()
    end: int = 0

    def cut(self, end: int) -> Log:
        """Return the log truncated to `end`."""
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
    for mine, yours in zip_longest(one.epochs, other.epochs, fillvalue=(OPEN, OPEN)):
        if mine != yours:
            return min(mine[1], yours[1], one.end, other.end)
    return min(one.end, other.end)
