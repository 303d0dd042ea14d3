"""What can be seen of one partition from outside: the steps that `partition_replay` explains.

Elections stand in the controller's order, a broker's steps in that of its own log. `at` (seconds,
of any clock) only says which of several to try first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ackproof_model.validation.partition_log import Log


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
    """Something that a broker said of its replica, whose log then ended at `end`."""

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
    """It became follower in an epoch (`Partition.makeFollower`); `leader` is -1 for nobody."""

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
    """Its fetcher begins, and the one before is gone (`AbstractFetcherManager`)."""

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
    """Its process started again, and has loaded its log.

    lossy: bytes were taken from its disk while it was down; else what it held it still holds,
        be it after a shutdown or a SIGKILL, which leaves the page cache. before: where the log
        ended when bytes were taken, None if nobody knows.
    """

    lossy: bool = False
    before: int | None = None

    def __str__(self) -> str:
        how = " after a power loss" if self.lossy else ""
        return f"broker {self.broker} loads a log that ends at {self.end}{how}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends(Step):
    """What its disk holds in the end."""

    log: Log

    def __str__(self) -> str:
        return f"broker {self.broker} holds in the end {self.log}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acked:
    """A record was acked at an offset.

    everyone: with acks=all, else by the leader alone. epoch: that of what stands at the offset in
    the end, None for nothing; lost: it is not the acked record that stands there, None if nobody
    knows. first, last: among which elections, by index, the ack must lie.
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
    """All that was seen of a partition. `brokers`: the steps of each replica, in its order."""

    name: str
    elections: tuple[Election, ...]
    brokers: Mapping[int, tuple[Step, ...]] = field(default_factory=dict)
    acks: tuple[Acked, ...] = ()
