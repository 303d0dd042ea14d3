"""Targets and conditions as Python expressions.

::

    Kill(target=leader("orders", 0), when=acked(3000) & (isr("orders", 0) == 3))

Conditions combine with ``&`` and ``|``; comparisons need parentheses around them. A fault stores
plain `Conditions` and a plain `TargetSpec`, whose ``==`` compares fields.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from itertools import product
from typing import Literal, NoReturn

from ackproof_faults.conditions.durations import format_duration
from ackproof_faults.conditions.targets import SharePartition, TargetSpec
from ackproof_faults.conditions.trigger import Conditions, either, parse_condition


class Expression(Conditions):
    """Conditions that combine with others by ``&`` and ``|``.

    Its conjunctive normal form is the form of a scenario: a list of texts that must all hold, each
    with its alternatives.
    """

    __slots__ = ()

    def __and__(self, other: Expression) -> Expression:
        return Expression((*self, *other))

    def __or__(self, other: Expression) -> Expression:
        return Expression(either(pair) for pair in product(self, other))

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"'{self}' is not true or false before the fault is scheduled: combine conditions "
            "with & and |, not with 'and', 'or' and 'not', and do not chain comparisons"
        )


def _read(text: str) -> Expression:
    return Expression([parse_condition(text)])


class Quantity:
    """A number of the cluster; comparing it with an integer gives a condition."""

    def __init__(self, text: str, *, name: str = "") -> None:
        self._text = text
        self._name = name or text

    def _condition(self, op: str, value: int) -> Expression:
        if type(value) is not int:
            raise TypeError(f"the {self._name} is compared with an integer, not with {value!r}")
        return _read(f"{self._text} {op} {value}")

    __hash__ = None  # type: ignore[assignment]  # `==` gives a condition

    def __eq__(self, value: int) -> Expression:  # type: ignore[override]
        return self._condition("==", value)

    def __ne__(self, value: int) -> Expression:  # type: ignore[override]
        return self._condition("!=", value)

    def __lt__(self, value: int) -> Expression:
        return self._condition("<", value)

    def __le__(self, value: int) -> Expression:
        return self._condition("<=", value)

    def __gt__(self, value: int) -> Expression:
        return self._condition(">", value)

    def __ge__(self, value: int) -> Expression:
        return self._condition(">=", value)


class Isr(Quantity):
    """The committed ISR of a partition: ``== 3`` compares its size, ``== {1, 3}`` its members."""

    __hash__ = None

    def __eq__(self, value: int | Set[int]) -> Expression:  # type: ignore[override]
        if not isinstance(value, Set):
            return super().__eq__(value)
        return _read(f"{self._text} is {{{', '.join(map(str, sorted(value)))}}}")


class PartitionLeader(TargetSpec):
    """The leader of a partition: a target, and the start of conditions on the leader."""

    __slots__ = ()

    __hash__ = None  # type: ignore[assignment]  # `==` gives a condition

    def __eq__(self, broker: int) -> Expression:  # type: ignore[override]
        return _read(f"{self} == {broker}")

    def __ne__(self, broker: int) -> Expression:  # type: ignore[override]
        return _read(f"{self} != {broker}")

    @property
    def exists(self) -> Expression:
        """The partition has a leader."""
        return _read(f"{self} != none")

    @property
    def is_none(self) -> Expression:
        """The partition has no leader."""
        return _read(f"{self} == none")

    @property
    def changed(self) -> Expression:
        """The partition has another leader than before the fault (in `when`: the previous one)."""
        return _read(f"{self} changed")


@dataclass(frozen=True, slots=True)
class HighWatermark:
    """The high watermark of a partition."""

    topic: str
    partition: int

    def stuck(self, seconds: float) -> Expression:
        """Wait until the high watermark has not moved for `seconds`."""
        return _read(f"hw of {self.topic}-{self.partition} stuck for {format_duration(seconds)}")


@dataclass(frozen=True, slots=True)
class SendCounter:
    """The number of acked sends, of all sends, or of records that share groups acquired."""

    outcome: Literal["acked", "sent", "acquired"]

    def __call__(self, count: int) -> Expression:
        """Wait for at least `count` since the run began."""
        return _read(f"{count} {self.outcome}")

    def more(self, count: int) -> Expression:
        """Wait for at least `count` since the fault was verified (in `when`: the previous one)."""
        return _read(f"{count} more {self.outcome}")


acked = SendCounter("acked")
sent = SendCounter("sent")
acquired = SendCounter("acquired")


def after(seconds: float) -> Expression:
    """Wait `seconds` from the verification of the fault (in `when`: of the previous one)."""
    return _read(f"after {format_duration(seconds)}")


def isr(topic: str, partition: int) -> Isr:
    """Compare the committed ISR: with a size, or by ``==`` with a set of broker ids."""
    return Isr(f"isr of {topic}-{partition}", name=f"ISR of {topic}-{partition}")


def epoch(topic: str, partition: int) -> Quantity:
    """Compare the leader epoch of a partition."""
    return Quantity(f"epoch of {topic}-{partition}")


def lag(group: str, topic: str, partition: int) -> Quantity:
    """Compare the number of records below the high watermark that a group has not committed."""
    return Quantity(f"lag of {group} on {topic}-{partition}")


def replica_lag(broker: int, topic: str, partition: int) -> Quantity:
    """Compare the number of records that the leader's log has after the end of a broker's own."""
    return Quantity(f"lag of broker {broker} on {topic}-{partition}")


def high_watermark(topic: str, partition: int) -> HighWatermark:
    """Select the high watermark of a partition, for ``.stuck(seconds)``."""
    return HighWatermark(topic, partition)


def log_says(text: str, *, broker: int | None = None) -> Expression:
    """Wait until a broker (by default any) has logged a line with `text` since the last fault."""
    return _read(f"log of broker{'' if broker is None else f' {broker}'} says '{text}'")


def began(fault: str) -> Expression:
    """Wait until a fault with this id or name was verified."""
    return _read(f"{fault} began")


def ended(fault: str) -> Expression:
    """Wait until a fault with this id or name was healed."""
    return _read(f"{fault} ended")


def recovered(fault: str) -> Expression:
    """Wait until everything that a fault with this id or name touched works again."""
    return _read(f"{fault} recovered")


def leader(topic: str, partition: int) -> PartitionLeader:
    """Target the leader of a partition, or begin a condition on it: ``== 2``, ``.changed``."""
    return PartitionLeader(role="leader", topic=topic, partition=partition)


def followers(topic: str, partition: int) -> TargetSpec:
    """Target all replicas of a partition but its leader."""
    return TargetSpec(role="followers", topic=topic, partition=partition)


def brokers(first: int, *more: int) -> TargetSpec:
    """Target brokers by node id."""
    return TargetSpec(role="brokers", brokers=(first, *more))


def rack(name: str) -> TargetSpec:
    """Target the brokers of a rack (`cluster.racks`): an availability zone."""
    return TargetSpec(role="brokers", rack=name)


def all_brokers() -> TargetSpec:
    """Target every broker."""
    return TargetSpec(role="all")


def any_brokers(count: int = 1) -> TargetSpec:
    """Target `count` brokers that the schedule draws from its seed."""
    if count < 1:
        raise ValueError(f"'any {count} brokers' is not a target: count is at least 1")
    return TargetSpec(role="any", count=count)


def active_controller() -> TargetSpec:
    """Target the leader of the metadata quorum."""
    return TargetSpec(role="active controller")


def minority_of_controllers() -> TargetSpec:
    """Target as many controllers as the metadata quorum can lose, with the active one."""
    return TargetSpec(role="minority of controllers")


def share_coordinator(group: str, topic: str, partition: int) -> TargetSpec:
    """Target the broker that keeps a share group's state of the partition (KIP-932)."""
    shared = SharePartition(group=group, topic=topic, partition=partition)
    return TargetSpec(role="share coordinator", shared=shared)


def majority_of_controllers() -> TargetSpec:
    """Target as many controllers as the metadata quorum needs, with the active one."""
    return TargetSpec(role="majority of controllers")
