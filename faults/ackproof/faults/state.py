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

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self

from ackproof.faults.targets import TOPIC_PARTITION

OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
COMPARISON = r"(?P<op>==|!=|<=|>=|<|>)"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OfPartition:
    """A condition on one partition."""

    topic: str
    partition: int

    @property
    def place(self) -> str:
        """The partition as a scenario writes it."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderIs(OfPartition):
    """This broker leads the partition, or (``!=``) another one does; None is nobody."""

    PATTERN = re.compile(rf"leader of {TOPIC_PARTITION} (?P<op>==|!=) (?P<broker>[0-9]+|none)")

    op: str
    broker: int | None

    @classmethod
    def read(cls, match: re.Match[str]) -> Self:
        """Return the condition that was matched."""
        return cls(
            topic=match["topic"],
            partition=int(match["partition"]),
            op=match["op"],
            broker=None if match["broker"] == "none" else int(match["broker"]),
        )

    def holds(self, seen: State) -> bool:
        """Whether the condition holds now."""
        leader = seen.leader(self.topic, self.partition)
        if self.broker is None:
            # Who can say the ISR can say that there is no leader.
            nobody = leader is None and seen.isr(self.topic, self.partition) is not None
            return nobody if self.op == "==" else leader is not None
        return leader is not None and bool(OPERATORS[self.op](leader, self.broker))

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        broker = "none" if self.broker is None else self.broker
        return f"leader of {self.place} {self.op} {broker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrIsExactly(OfPartition):
    """The committed ISR has these members and no other."""

    PATTERN = re.compile(rf"isr of {TOPIC_PARTITION} is \{{(?P<members>[0-9]+(, ?[0-9]+)*)\}}")

    members: tuple[int, ...]

    @classmethod
    def read(cls, match: re.Match[str]) -> Self:
        """Return the condition that was matched."""
        members = tuple(sorted({int(one) for one in match["members"].split(",")}))
        return cls(topic=match["topic"], partition=int(match["partition"]), members=members)

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

    PATTERN = re.compile(rf"epoch of {TOPIC_PARTITION} {COMPARISON} (?P<epoch>[0-9]+)")

    op: str
    epoch: int

    @classmethod
    def read(cls, match: re.Match[str]) -> Self:
        """Return the condition that was matched."""
        return cls(
            topic=match["topic"],
            partition=int(match["partition"]),
            op=match["op"],
            epoch=int(match["epoch"]),
        )

    def holds(self, seen: State) -> bool:
        """Whether the condition holds now."""
        epoch = seen.epoch(self.topic, self.partition)
        return epoch is not None and bool(OPERATORS[self.op](epoch, self.epoch))

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        return f"epoch of {self.place} {self.op} {self.epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkStuck(OfPartition):
    """The partition's high watermark has not moved for `seconds`."""

    PATTERN = re.compile(
        rf"hw of {TOPIC_PARTITION} stuck for (?P<number>[0-9]+(?:\.[0-9]+)?) ?(?P<unit>ms|s|m)"
    )

    seconds: float

    @classmethod
    def read(cls, match: re.Match[str]) -> Self:
        """Return the condition that was matched."""
        unit = {"ms": 0.001, "s": 1.0, "m": 60.0}[match["unit"]]
        return cls(
            topic=match["topic"],
            partition=int(match["partition"]),
            seconds=float(match["number"]) * unit,
        )

    def holds(self, seen: State) -> bool:
        """Whether the condition holds now."""
        still = seen.still(self.topic, self.partition)
        return still is not None and still >= self.seconds

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        return f"hw of {self.place} stuck for {self.seconds:g}s"


@dataclass(frozen=True, slots=True, kw_only=True)
class LagIs(OfPartition):
    """A group's lag on the partition compares to `records` as `op` says."""

    PATTERN = re.compile(
        rf"lag of (?P<group>\S+) on {TOPIC_PARTITION} {COMPARISON} (?P<records>[0-9]+)"
    )

    group: str
    op: str
    records: int

    @classmethod
    def read(cls, match: re.Match[str]) -> Self:
        """Return the condition that was matched."""
        return cls(
            topic=match["topic"],
            partition=int(match["partition"]),
            group=match["group"],
            op=match["op"],
            records=int(match["records"]),
        )

    def holds(self, seen: State) -> bool:
        """Whether the condition holds now."""
        lag = seen.lag(self.group, self.topic, self.partition)
        return lag is not None and bool(OPERATORS[self.op](lag, self.records))

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        return f"lag of {self.group} on {self.place} {self.op} {self.records}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSays:
    """A broker's log (None: any broker's) has a line with `text` since the mark."""

    PATTERN = re.compile(r"log of broker(?: (?P<broker>[0-9]+))? says '(?P<text>[^']+)'")

    broker: int | None
    text: str

    @classmethod
    def read(cls, match: re.Match[str]) -> Self:
        """Return the condition that was matched."""
        broker = match["broker"]
        return cls(broker=None if broker is None else int(broker), text=match["text"])

    def holds(self, seen: State) -> bool:
        """Whether the condition holds now."""
        return seen.log_says(self.broker, self.text)

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        whose = "" if self.broker is None else f" {self.broker}"
        return f"log of broker{whose} says '{self.text}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultHas:
    """A fault with this name or id began, ended (was healed) or recovered."""

    PATTERN = re.compile(r"(?P<fault>[a-z][a-z0-9_-]*) (?P<event>began|ended|recovered)")

    fault: str
    event: Event

    @classmethod
    def read(cls, match: re.Match[str]) -> Self:
        """Return the condition that was matched."""
        events: dict[str, Event] = {"began": "began", "ended": "ended", "recovered": "recovered"}
        return cls(fault=match["fault"], event=events[match["event"]])

    def holds(self, seen: State) -> bool:
        """Whether the condition holds now."""
        return seen.happened(self.fault, self.event)

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        return f"{self.fault} {self.event}"


StateCondition = LeaderIs | IsrIsExactly | EpochIs | HighWatermarkStuck | LagIs | LogSays | FaultHas

_KINDS: tuple[type[StateCondition], ...] = (
    LeaderIs,
    IsrIsExactly,
    EpochIs,
    HighWatermarkStuck,
    LagIs,
    LogSays,
    FaultHas,
)
LEGAL = (
    "'leader of TOPIC-N == BROKER' (or none), 'isr of TOPIC-N is {1, 2}', 'epoch of TOPIC-N >= K', "
    "'hw of TOPIC-N stuck for 2s', 'lag of GROUP on TOPIC-N > K', "
    "\"log of broker 1 says 'TEXT'\", 'FAULT began', 'FAULT ended', 'FAULT recovered'"
)


def read(text: str) -> StateCondition | None:
    """Return the condition that `text` writes; None if it is none of these."""
    for kind in _KINDS:
        if match := kind.PATTERN.fullmatch(text):
            return kind.read(match)
    return None


def schema_patterns() -> list[str]:
    """Return what each may look like, as JSON Schema's regular expressions."""
    return [re.sub(r"\(\?P<\w+>", "(", kind.PATTERN.pattern) for kind in _KINDS]
