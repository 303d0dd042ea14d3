"""Conditions on what the cluster says of itself, and on other faults.

================================  ===============================================================
``leader of orders-0 == 2``       broker 2 leads it (``!=``: another does)
``leader of orders-0 == none``    nobody does (``!=``: somebody does)
``isr of orders-0 is {1, 3}``     the committed ISR is exactly this
``epoch of orders-0 >= 5``        its leader epoch
``hw of orders-0 stuck for 2s``   its high watermark has not moved for so long
``lag of G on orders-0 > 100``    group G has committed so many records less than there are
``log of broker 1 says 'TEXT'``   since the mark, its log has a line with TEXT (``broker`` alone:
                                  any broker's)
``NAME began`` (or ``ended``,     a fault with this name or id began, was healed, or has recovered,
``recovered``)                    since the innermost sequence began
================================  ===============================================================

What nobody can say now meets no condition.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Protocol

from pydantic import BeforeValidator

from ackproof_faults.conditions.durations import DURATION, Duration, format_duration
from ackproof_faults.conditions.syntax import (
    COMPARISON,
    OfPartition,
    Written,
    compares,
)
from ackproof_faults.conditions.targets import TOPIC_PARTITION

Event = Literal["began", "ended", "recovered"]


class State(Protocol):
    """What these conditions look at; None is "nobody can say now"."""

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the partition's leader."""

    def isr(self, topic: str, partition: int) -> Sequence[int] | None:
        """Return the partition's committed ISR."""

    def epoch(self, topic: str, partition: int) -> int | None:
        """Return the partition's leader epoch."""

    def still(self, topic: str, partition: int) -> float | None:
        """Return for how many seconds the partition's high watermark has not moved."""

    def lag(self, group: str, topic: str, partition: int) -> int | None:
        """Return how many records the group has still to commit."""

    def log_says(self, broker: int | None, text: str) -> bool:
        """Whether a line with `text` is in the broker's log (None: any's) since the mark."""

    def happened(self, fault: str, event: Event) -> bool:
        """Whether it happened to a fault of this name or id."""


def _parse_members(text: str) -> tuple[int, ...]:
    return tuple(sorted({int(one) for one in text.split(",")}))


def _broker_or_none(text: str) -> str | None:
    return None if text == "none" else text


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderIs(OfPartition):
    """This broker leads the partition, or (``!=``) another one does; None is nobody."""

    PATTERN: ClassVar = re.compile(
        rf"leader of {TOPIC_PARTITION} (?P<op>==|!=) (?P<broker>[0-9]+|none)"
    )

    op: str
    broker: Annotated[int | None, BeforeValidator(_broker_or_none)]

    def holds(self, seen: State) -> bool:
        """Whether the condition holds now."""
        leader = seen.leader(self.topic, self.partition)
        if self.broker is None:
            # Who can say the ISR can say that there is no leader.
            nobody = leader is None and seen.isr(self.topic, self.partition) is not None
            return nobody if self.op == "==" else leader is not None
        return compares(leader, self.op, self.broker)

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        broker = "none" if self.broker is None else self.broker
        return f"leader of {self.place} {self.op} {broker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrIsExactly(OfPartition):
    """The committed ISR has these members and no other."""

    PATTERN: ClassVar = re.compile(
        rf"isr of {TOPIC_PARTITION} is \{{(?P<members>[0-9]+(?:, ?[0-9]+)*)\}}"
    )

    members: Annotated[tuple[int, ...], BeforeValidator(_parse_members)]

    def holds(self, seen: State) -> bool:
        """Whether the condition holds now."""
        isr = seen.isr(self.topic, self.partition)
        return isr is not None and set(isr) == set(self.members)

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        return f"isr of {self.place} is {{{', '.join(map(str, self.members))}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochIs(OfPartition):
    """The partition's leader epoch compares to `epoch` as `op` says."""

    PATTERN: ClassVar = re.compile(rf"epoch of {TOPIC_PARTITION} {COMPARISON} (?P<epoch>[0-9]+)")

    op: str
    epoch: int

    def holds(self, seen: State) -> bool:
        """Whether the condition holds now."""
        return compares(seen.epoch(self.topic, self.partition), self.op, self.epoch)

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        return f"epoch of {self.place} {self.op} {self.epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkStuck(OfPartition):
    """The partition's high watermark has not moved for `seconds`."""

    PATTERN: ClassVar = re.compile(rf"hw of {TOPIC_PARTITION} stuck for (?P<seconds>{DURATION})")

    seconds: Duration

    def holds(self, seen: State) -> bool:
        """Whether the condition holds now."""
        still = seen.still(self.topic, self.partition)
        return still is not None and still >= self.seconds

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        return f"hw of {self.place} stuck for {format_duration(self.seconds)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LagIs(OfPartition):
    """A group's lag on the partition compares to `records` as `op` says."""

    PATTERN: ClassVar = re.compile(
        rf"lag of (?P<group>\S+) on {TOPIC_PARTITION} {COMPARISON} (?P<records>[0-9]+)"
    )

    group: str
    op: str
    records: int

    def holds(self, seen: State) -> bool:
        """Whether the condition holds now."""
        return compares(seen.lag(self.group, self.topic, self.partition), self.op, self.records)

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        return f"lag of {self.group} on {self.place} {self.op} {self.records}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSays(Written):
    """A broker's log (None: any broker's) has a line with `text` since the mark."""

    PATTERN: ClassVar = re.compile(r"log of broker(?: (?P<broker>[0-9]+))? says '(?P<text>[^']+)'")

    broker: int | None
    text: str

    def holds(self, seen: State) -> bool:
        """Whether the condition holds now."""
        return seen.log_says(self.broker, self.text)

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        whose = "" if self.broker is None else f" {self.broker}"
        return f"log of broker{whose} says '{self.text}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultHas(Written):
    """A fault with this name or id began, ended (was healed) or recovered."""

    PATTERN: ClassVar = re.compile(r"(?P<fault>[a-z][a-z0-9_-]*) (?P<event>began|ended|recovered)")

    fault: str
    event: Event

    def holds(self, seen: State) -> bool:
        """Whether the condition holds now."""
        return seen.happened(self.fault, self.event)

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        return f"{self.fault} {self.event}"


StateCondition = LeaderIs | IsrIsExactly | EpochIs | HighWatermarkStuck | LagIs | LogSays | FaultHas

LEGAL = (
    "'leader of TOPIC-N == BROKER' (or none), 'isr of TOPIC-N is {1, 2}', 'epoch of TOPIC-N >= K', "
    "'hw of TOPIC-N stuck for 2s', 'lag of GROUP on TOPIC-N > K', "
    "\"log of broker 1 says 'TEXT'\", 'FAULT began', 'FAULT ended', 'FAULT recovered'"
)
