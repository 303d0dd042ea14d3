"""The observations of one partition, for `partition_replay`.

Elections are in the controller's order, a broker's steps in the order of its own log. `at` (seconds
of any clock) decides which of several steps is tried first.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """A state of the partition, from the controller's log; `leader` is -1 for none."""

    epoch: int
    leader: int
    isr: tuple[int, ...]
    partition_epoch: int = 0
    at: float = 0.0

    def __str__(self) -> str:
        leader = "no leader" if self.leader < 0 else f"leader {self.leader}"
        return f"{leader} in epoch {self.epoch}, ISR {sorted(self.isr)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A line in a broker's log about its replica, whose log end offset was `end`."""

    broker: int
    end: int
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leads(Step):
    """It became leader in an epoch (`Partition.makeLeader`)."""

    epoch: int
    isr: tuple[int, ...]
    high_watermark: int = 0

    def __str__(self) -> str:
        return (
            f"broker {self.broker} leads in epoch {self.epoch} from offset {self.end}, "
            f"high watermark {self.high_watermark}, ISR {sorted(self.isr)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Follows(Step):
    """It became follower in an epoch (`Partition.makeFollower`); `leader` is -1 for none."""

    epoch: int
    leader: int
    high_watermark: int = 0

    def __str__(self) -> str:
        leader = "nobody" if self.leader < 0 else f"broker {self.leader}"
        return (
            f"broker {self.broker} follows {leader} in epoch {self.epoch} from offset {self.end}, "
            f"high watermark {self.high_watermark}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetches(Step):
    """Its fetcher begins; the previous one has ended (`AbstractFetcherManager`)."""

    epoch: int

    def __str__(self) -> str:
        return f"broker {self.broker} fetches in epoch {self.epoch} from offset {self.end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncates(Step):
    """It cut its log to `end` (`UnifiedLog.truncateTo`)."""

    def __str__(self) -> str:
        return f"broker {self.broker} truncates to offset {self.end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrinks(Step):
    """As leader it asked for a smaller ISR (`Partition.maybeShrinkIsr`)."""

    high_watermark: int

    def __str__(self) -> str:
        return (
            f"broker {self.broker} wants a smaller ISR, its log ending at {self.end}, "
            f"high watermark {self.high_watermark}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads(Step):
    """Its process restarted and has loaded its log.

    lossy: bytes were removed from its disk while it was down; otherwise its log is
    unchanged, also after a SIGKILL (the page cache survives). before: the log end offset before
        bytes were removed, None if unknown.
    """

    lossy: bool = False
    before: int | None = None

    def __str__(self) -> str:
        how = " after a power loss" if self.lossy else ""
        return f"broker {self.broker} loads a log that ends at {self.end}{how}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends(Step):
    """The log on its disk at the end of the run."""

    log: Log

    def __str__(self) -> str:
        return f"broker {self.broker} holds in the end {self.log}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acked:
    """A record was acked at an offset.

    everyone: with acks=all, else by the leader alone. epoch: of the record at that offset in the
    end, None if there is none. lost: that record is not the acked one, None if unknown. first,
    last: the range of elections, by index, in which the ack lies.
    """

    offset: int
    everyone: bool
    epoch: int | None
    lost: bool | None
    first: int = 0
    last: int | None = None

    def __str__(self) -> str:
        fate = ", which is lost" if self.lost else ""
        return f"acks={'all' if self.everyone else '1'} of offset {self.offset}{fate}"

    def fits(self, epoch: int | None) -> bool:
        """Whether a record written in an epoch can be the acked one."""
        return epoch is not None and (self.lost is None or self.lost == (epoch != self.epoch))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All observations of a partition. brokers: the steps of each replica in order."""

    name: str
    elections: tuple[Election, ...]
    brokers: Mapping[int, tuple[Step, ...]] = field(default_factory=dict)
    acks: tuple[Acked, ...] = ()
