"""The fault schedule of a run: faults, target brokers, and conditions.

Injections happen in their order, each when all of its `when` conditions hold. `Timing` bounds the
seconds between two points of the schedule by its `Elapsed` and `or_after`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from ackproof_model.effects import Cuts, Effect, Ends, Stalls
from ackproof_model.replication.state import NOBODY, Controller

#: The greatest delay of a step of the schedule, in seconds: commands and verification take time.
SLACK_S = 5.0


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


class Role(StrEnum):
    """Brokers that a fault hits, resolved when it is injected.

    A number in place of a role is a replica in assignment order: 0 is the first leader. ANY_ONE is
    one broker with an unknown role in this partition. SAME are the targets of the
    previous fault (none, for the first fault).
    """

    LEADER = "leader"
    FOLLOWERS = "followers"
    ANY_ONE = "any_one"
    SAME = "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A number of records is acked (or sent).

    With `more`, it counts since the previous fault was verified; in a heal condition, since this
    fault was. The number is larger than the records in flight, so only records sent after that
    count.
    """

    outcome: Literal["acked", "sent"]
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrSize:
    op: Literal["==", "!=", "<", ">", "<=", ">="]
    size: int

    def allows(self, size: int) -> bool:
        """Whether an ISR of `size` members meets the condition."""
        return _COMPARE[self.op](size, self.size)

    def met_by(self, controller: Controller) -> bool:
        return self.allows(controller.isr.bit_count())


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """The partition has another leader than when the fault was injected.

    For an injection that is the previous fault (or the start of the run), for a heal this fault.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderIs:
    """This replica (None: no replica) leads the partition; without `equal`: it does not."""

    replica: int | None
    equal: bool = True

    def met_by(self, controller: Controller) -> bool:
        leader = NOBODY if self.replica is None else self.replica
        return (controller.leader == leader) == self.equal


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrIs:
    """The ISR has these members and no other."""

    members: frozenset[int]

    def met_by(self, controller: Controller) -> bool:
        return controller.isr == sum(1 << one for one in self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElrIs:
    """The eligible leader replicas are these and no other (KIP-966)."""

    members: frozenset[int]

    def met_by(self, controller: Controller) -> bool:
        return controller.elr == sum(1 << one for one in self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultEvent:
    """An earlier fault of the schedule, by its index, began, was healed, or recovered.

    It has recovered when it is healed and all its targets are in the ISR again.
    """

    fault: int
    event: Literal["began", "ended", "recovered"]


@dataclass(frozen=True, slots=True)
class AnyTime:
    """A condition outside the model, which may hold at any time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elapsed:
    """Seconds since the previous fault was verified; in a heal condition, since this fault was."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """At least one of the conditions holds."""

    alternatives: tuple[Condition, ...]


Condition = (
    Progress
    | IsrSize
    | IsrIs
    | ElrIs
    | LeaderChanged
    | LeaderIs
    | FaultEvent
    | AnyTime
    | Elapsed
    | AnyOf
)


def leaves(conditions: Iterable[Condition]) -> Iterator[Condition]:
    """Yield the conditions, and in place of an `AnyOf` its alternatives."""
    for one in conditions:
        yield from leaves(one.alternatives) if isinstance(one, AnyOf) else (one,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """One fault of a schedule.

    fault: its name, for traces. effects: applied to its targets in this order. The search
        supports those that `exact` of an effect returns; it ignores their other fields.
    when, or_after: it is injected when all conditions hold, or so many seconds after the previous
        fault was verified. Without both it is injected at once.
    heal_when, heal_or_after: the same for healing, counted from this fault's verification. Without
        both it is healed when the schedule ends.
    """

    fault: str
    effects: tuple[Effect, ...] = ()
    targets: frozenset[Role | int] = frozenset()
    when: tuple[Condition, ...] = ()
    or_after: float | None = None
    heal_when: tuple[Condition, ...] = ()
    heal_or_after: float | None = None

    @property
    def heals_by_itself(self) -> bool:
        return bool(self.heal_when) or self.heal_or_after is not None

    @property
    def shuts_down(self) -> bool:
        """Whether it is a controlled shutdown, which takes time."""
        return any(isinstance(one, Ends) and one.clean for one in self.effects)

    @property
    def impairs(self) -> bool:
        """Whether brokers run without some connections while it is in force."""
        return any(isinstance(one, Cuts | Stalls) for one in self.effects)

    @property
    def loses_data(self) -> bool:
        """Whether logs may lose appended records."""
        return any(isinstance(one, Ends) and one.log != "kept" for one in self.effects)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    conditions: tuple[Condition, ...]
    or_after: float | None

    @property
    def elapsed(self) -> float:
        """The seconds after which the conditions can hold, at the earliest."""
        return max(map(_earliest, self.conditions), default=0.0)

    @property
    def at_least(self) -> float:
        """The minimum duration of the wait, in seconds."""
        if self.or_after is None:
            return self.elapsed
        return min(self.elapsed, self.or_after) if self.conditions else self.or_after

    @property
    def at_most(self) -> float:
        """The maximum duration of the wait, in seconds; infinite without a bound."""
        bound = math.inf if self.or_after is None else self.or_after
        if self.conditions or self.or_after is None:
            bound = min(bound, max(map(_latest, self.conditions), default=0.0))
        return bound + SLACK_S


def _earliest(condition: Condition) -> float:
    match condition:
        case Elapsed(seconds=seconds):
            return seconds
        case AnyOf(alternatives=alternatives):
            return min(map(_earliest, alternatives))
    return 0.0


def _latest(condition: Condition) -> float:
    match condition:
        case Elapsed(seconds=seconds):
            return seconds
        case AnyOf(alternatives=alternatives):
            return min(map(_latest, alternatives))
    return math.inf


def injection_wait(injection: Injection) -> Wait:
    return _wait(injection.when, injection.or_after)


def heal_wait(injection: Injection) -> Wait:
    return _wait(injection.heal_when, injection.heal_or_after)


def _wait(conditions: tuple[Condition, ...], or_after: float | None) -> Wait:
    """Return the wait; a condition "A or after S seconds" is A with `or_after`."""
    match conditions:
        case (AnyOf(alternatives=alternatives),):
            times = [one.seconds for one in alternatives if isinstance(one, Elapsed)]
            others = tuple(one for one in alternatives if not isinstance(one, Elapsed))
            if times:
                or_after = min(times) if or_after is None else min(or_after, *times)
                conditions = (AnyOf(alternatives=others),) if others else ()
    return Wait(conditions=conditions, or_after=or_after)


class Timing:
    def __init__(self, schedule: Sequence[Injection]) -> None:
        waits = [injection_wait(injection) for injection in schedule]
        self._most = [wait.at_most for wait in waits]
        self._least = [wait.at_least for wait in waits]
        self._heals = [
            min(heal_wait(injection).at_most, self._after_others(fault, injection))
            if injection.heals_by_itself
            else None
            for fault, injection in enumerate(schedule)
        ]
        self._before: list[float] = []
        for fault in range(len(schedule)):
            self._before.append(self._impaired_before(fault, schedule))

    def at_most(self, fault: int, phase: int, *, unhealed: bool) -> float:
        """Return the maximum seconds that fault `fault` may have lasted in `phase`.

        In phase p, p faults are verified. unhealed: the fault is still in force, so its own heal
        condition bounds the time, too. Time of an earlier, overlapping fault counts.
        """
        passed = self._span(fault, phase)
        if phase == len(self._most):
            ends = [self._span(fault, i) + heal for i, heal in enumerate(self._heals) if heal]
            passed = max([passed + SLACK_S, *ends])
        heal = self._heals[fault]
        if unhealed and heal is not None:
            passed = min(passed, heal)
        return passed + self._before[fault]

    def _impaired_before(self, fault: int, schedule: Sequence[Injection]) -> float:
        """Return how long earlier faults may have impaired brokers.

        Healed faults count: TCP waits about as long as the fault lasted before it tries again.
        """
        longest = 0.0
        for other in range(fault if schedule[fault].impairs else 0):
            heal = self._heals[other]
            ends = math.inf if heal is None else heal
            if schedule[other].impairs and ends > self.at_least(other, fault, 0.0):
                age = min(self._span(other, fault), ends + self._before[other])
                longest = max(longest, age)
        return longest

    def _after_others(self, fault: int, injection: Injection) -> float:
        """Return the latest time at which a fault is healed that waits only for others to begin."""
        waits = injection.heal_when
        if not waits or not all(
            isinstance(one, FaultEvent) and one.event == "began" for one in waits
        ):
            return math.inf
        others = (one.fault for one in waits if isinstance(one, FaultEvent))
        return max(self._span(fault, other) for other in others) + SLACK_S

    def _span(self, fault: int, index: int) -> float:
        """Return the longest time from `fault` to fault `index`."""
        return sum(self._most[fault + 1 : index + 1])

    def at_least(self, fault: int, reference: int, seconds: float) -> float:
        """Return the least age of `fault`, in seconds, `seconds` after fault `reference`."""
        if fault > reference:
            return 0.0
        return sum(self._least[fault + 1 : reference + 1]) + seconds
