"""The order of faults: each begins on its trigger, ends on its trigger, and is made good.

`Schedule.tick` is called every few milliseconds by whoever runs the workload. It never sleeps
and never waits for a condition, so that Ctrl-C and a dying workload are noticed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ackproof.faults.base import Cluster, Fault, FaultError, FaultWindow, Guard, inject
from ackproof.faults.triggers import Conditions, format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How many sends have been handed over and acked since the run began."""

    sent: int
    acked: int


class _Seen:
    """What conditions look at, counted from a mark (see `triggers.Observation`)."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        progress: Progress,
        marked: Progress,
        leaders: dict[tuple[str, int], int | None],
        elapsed: float,
    ) -> None:
        self._cluster = cluster
        self._progress = progress
        self._marked = marked
        self._leaders = leaders
        self._elapsed = elapsed

    def count(self, outcome: Literal["acked", "sent"], *, more: bool) -> int:
        now, then = getattr(self._progress, outcome), getattr(self._marked, outcome)
        return int(now - then if more else now)

    def isr_size(self, topic: str, partition: int) -> int | None:
        isr = self._cluster.isr(topic, partition)
        return None if isr is None else len(isr)

    def leader_changed(self, topic: str, partition: int) -> bool:
        before = self._leaders.get((topic, partition))
        now = self._cluster.leader(topic, partition)
        return None not in (before, now) and before != now

    def elapsed(self) -> float:
        return self._elapsed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """The moment from which `more`, `changed` and `after` count."""

    progress: Progress
    time: float
    leaders: dict[tuple[str, int], int | None]


class Schedule:
    """Runs a list of faults in order against one cluster.

    `progress` counts sends now; `clock` returns UTC time for the windows, `monotonic` seconds
    for waiting. `partitions` are those whose leader is remembered before every injection, for
    `leader of T-P changed`.
    """

    def __init__(
        self,
        faults: Sequence[Fault],
        cluster: Cluster,
        *,
        partitions: Sequence[tuple[str, int]],
        progress: Callable[[], Progress],
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._waiting = list(faults)
        self._cluster = cluster
        self._partitions = partitions
        self._progress = progress
        self._clock = clock
        self._monotonic = monotonic
        self._in_force: list[tuple[Guard, _Mark]] = []
        self._mark = self._new_mark(self._leaders({}))

    @property
    def windows(self) -> list[FaultWindow]:
        """The window of every fault so far, in order of injection."""
        return [guard.window for guard, _ in self._in_force]

    @property
    def waiting(self) -> list[Fault]:
        """The faults that have not begun yet."""
        return list(self._waiting)

    @property
    def unended(self) -> list[Fault]:
        """The faults in force whose own trigger to heal has not come true."""
        return [
            guard.fault
            for guard, _ in self._in_force
            if guard.window.healed_at is None and _heals_by_itself(guard.fault)
        ]

    @property
    def done(self) -> bool:
        """Whether every fault has been injected, healed and recovered from."""
        return not self._waiting and all(
            guard.window.recovered_at is not None for guard, _ in self._in_force
        )

    @property
    def waiting_for(self) -> str:
        """What the schedule is waiting for now, in words, for progress and error messages."""
        if self._waiting:
            fault = self._waiting[0]
            return f"the start of {fault.name} of {fault.target} ({fault.when})"
        for guard, _ in self._in_force:
            window = guard.window
            if window.healed_at is None:
                return f"the end of {window.fault} of {window.target} ({guard.fault.heal_when})"
            if window.recovered_at is None:
                return f"recovery from {window.fault} of {window.target}"
        return "nothing"

    def tick(self) -> None:
        """Inject, heal and check recovery, as far as conditions allow now.

        Raises FaultError if a fault's target names nobody or a fault cannot be healed.
        """
        self._heal_due()
        self._inject_due()
        self.check_recovered()

    def heal_all(self) -> None:
        """Drop what has not begun and heal everything in force, the newest first.

        Raises FaultError, after having tried all, if something could not be healed.
        """
        self._waiting.clear()
        errors = []
        for guard, _ in reversed(self._in_force):
            try:
                guard.heal()
            except FaultError as error:
                errors.append(f"{guard.window.fault} of {guard.window.target}: {error}")
        if errors:
            raise FaultError("not healed: " + "; ".join(errors))

    def check_recovered(self) -> bool:
        """Whether everything that was injected is healed and works again."""
        states = [guard.recovered() for guard, _ in self._in_force]  # ask every one, not up to one
        return all(states)

    def _inject_due(self) -> None:
        if not self._waiting:
            return
        fault = self._waiting[0]
        trigger = self._due(fault.when, fault.or_after, mark=self._mark)
        if trigger is None:
            return
        leaders = self._leaders(self._mark.leaders)
        guard = inject(fault, self._cluster, trigger=trigger, clock=self._clock)
        del self._waiting[0]
        # Leaders are those before the fault; progress and time count from its verification,
        # because what was acked while it was being put into force may still have been replicated.
        self._mark = self._new_mark(leaders)
        self._in_force.append((guard, self._mark))

    def _heal_due(self) -> None:
        lasting = [(guard, mark) for guard, mark in self._in_force if not guard.window.healed_at]
        for guard, mark in lasting:
            fault = guard.fault
            if _heals_by_itself(fault) and self._due(fault.heal_when, fault.heal_after, mark=mark):
                guard.heal()
        if not self._waiting and not any(_heals_by_itself(guard.fault) for guard, _ in lasting):
            for guard, _ in reversed(lasting):
                guard.heal()

    def _due(self, conditions: Conditions, at_latest: float | None, *, mark: _Mark) -> str | None:
        """Return which condition is due, in words; None while none is."""
        elapsed = self._monotonic() - mark.time
        seen = _Seen(
            self._cluster,
            progress=self._progress(),
            marked=mark.progress,
            leaders=mark.leaders,
            elapsed=elapsed,
        )
        if (conditions or at_latest is None) and conditions.hold(seen):
            return str(conditions)
        if at_latest is not None and elapsed >= at_latest:
            return f"after {format_duration(at_latest)}"
        return None

    def _leaders(
        self, known: dict[tuple[str, int], int | None]
    ) -> dict[tuple[str, int], int | None]:
        """Return each partition's leader; the known one where there is none or nobody can say now.

        With an earlier fault's brokers frozen, the question may go unanswered; without a leader to
        compare with, "changed" would never come true.
        """
        return {
            place: known.get(place) if leader is None else leader
            for place in self._partitions
            for leader in [self._cluster.leader(*place)]
        }

    def _new_mark(self, leaders: dict[tuple[str, int], int | None]) -> _Mark:
        return _Mark(progress=self._progress(), time=self._monotonic(), leaders=leaders)


def _heals_by_itself(fault: Fault) -> bool:
    return bool(fault.heal_when) or fault.heal_after is not None
