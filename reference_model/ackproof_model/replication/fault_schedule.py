"""The fault schedule of a run: what is injected, into which brokers, and when.

Injections happen in their order, each when all of its `when` conditions hold. Time appears only as
bounds: `Timing` returns how many seconds may, or must, have passed between two points of the
schedule, from its own `Elapsed` and `or_after`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, get_args

FaultName = Literal["none", "kill", "power_loss", "restart", "isolate_replication"]

#: How many seconds after its own bound a step of the schedule may happen: commands take time, and
#: so does verifying that a fault holds.
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
    """The brokers that a fault hits, resolved when it is injected.

    ANY_ONE is one broker whose role for this partition is not known beforehand. SAME are the
    targets of the previous fault (none, for the first fault).
    """

    LEADER = "leader"
    FOLLOWERS = "followers"
    ANY_ONE = "any_one"
    SAME = "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A number of records is acked (or sent).

    With `more`, it counts since the previous fault was verified; in a heal condition, since this
    fault was. The number is larger than what can be in flight at once, so only records sent after
    that moment count.
    """

    outcome: Literal["acked", "sent"]
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrSize:
    op: Literal["==", "!=", "<", ">", "<=", ">="]
    size: int

    def met_by(self, size: int) -> bool:
        """Whether an ISR of `size` members meets the condition."""
        return _COMPARE[self.op](size, self.size)


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """The partition has another leader than when the fault was injected.

    For an injection that is the previous fault (or the start of the run), for a heal this fault.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Elapsed:
    """Seconds since the previous fault was verified; in a heal condition, since this fault was."""

    seconds: float


Condition = Progress | IsrSize | LeaderChanged | Elapsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """One fault of a schedule.

    when, or_after: it is injected when all conditions hold, or so many seconds after the previous
        fault was verified. Without both it is injected at once.
    heal_when, heal_or_after: the same for healing, counted from this fault's verification. Without
        both it is healed when the schedule ends.

    kill: SIGKILL; the log keeps what was appended. power_loss: SIGKILL, and the log keeps any
    prefix. restart: SIGTERM, a controlled shutdown; it is verified when the process has ended.
    Healing any of these starts the process. isolate_replication: drops the connections of all other
    running brokers to the target's internal listener; it survives a kill of the target, but a
    restarted broker on the other side is no longer cut off. none: does nothing.
    """

    fault: FaultName
    targets: frozenset[Role] = frozenset()
    when: tuple[Condition, ...] = ()
    or_after: float | None = None
    heal_when: tuple[Condition, ...] = ()
    heal_or_after: float | None = None

    def __post_init__(self) -> None:
        if self.fault not in get_args(FaultName):
            raise ValueError(f"fault {self.fault!r} is not one of {', '.join(get_args(FaultName))}")

    @property
    def heals_by_itself(self) -> bool:
        return bool(self.heal_when) or self.heal_or_after is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    conditions: tuple[Condition, ...]
    or_after: float | None

    @property
    def elapsed(self) -> float:
        """The longest `Elapsed` among the conditions, 0 for none."""
        return max((c.seconds for c in self.conditions if isinstance(c, Elapsed)), default=0.0)

    @property
    def at_least(self) -> float:
        """The seconds that have certainly passed once the wait is over."""
        if self.or_after is None:
            return self.elapsed
        return min(self.elapsed, self.or_after) if self.conditions else self.or_after

    @property
    def at_most(self) -> float:
        """The seconds after which the wait is certainly over; infinite without a bound."""
        bound = math.inf if self.or_after is None else self.or_after
        if all(isinstance(c, Elapsed) for c in self.conditions) and (
            self.conditions or self.or_after is None
        ):
            bound = min(bound, self.elapsed)
        return bound + SLACK_S


def injection_wait(injection: Injection) -> Wait:
    return Wait(conditions=injection.when, or_after=injection.or_after)


def heal_wait(injection: Injection) -> Wait:
    return Wait(conditions=injection.heal_when, or_after=injection.heal_or_after)


class Timing:
    def __init__(self, schedule: Sequence[Injection]) -> None:
        waits = [injection_wait(injection) for injection in schedule]
        self._most = [wait.at_most for wait in waits]
        self._least = [wait.at_least for wait in waits]
        self._heals = [
            heal_wait(injection).at_most if injection.heals_by_itself else None
            for injection in schedule
        ]

    def at_most(self, fault: int, phase: int, *, unhealed: bool) -> float:
        """Return how many seconds ago fault `fault` was verified, at most, during `phase`.

        In phase p, p faults are verified. unhealed: the fault is still in force, so its own heal
        condition bounds the time, too.
        """
        passed = self._span(fault, phase)
        if phase == len(self._most):
            ends = [self._span(fault, i) + heal for i, heal in enumerate(self._heals) if heal]
            passed = max([passed + SLACK_S, *ends])
        heal = self._heals[fault]
        return min(passed, heal) if unhealed and heal is not None else passed

    def _span(self, fault: int, index: int) -> float:
        """Return the longest time from `fault` to fault `index`."""
        return sum(self._most[fault + 1 : index + 1])

    def at_least(self, fault: int, reference: int, seconds: float) -> float:
        """Return the least age of `fault`, in seconds, `seconds` after fault `reference`."""
        if fault > reference:
            return 0.0
        return sum(self._least[fault + 1 : reference + 1]) + seconds
