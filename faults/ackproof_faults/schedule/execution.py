"""Runs drawn steps against a cluster: in order, together, or in turns.

Nothing here sleeps or waits: `tick` does what is due now. All of it shares one `Stage`, which knows
every fault that was injected and what a schedule must not do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from ackproof_faults.conditions.conditions import Conditions
from ackproof_faults.conditions.durations import format_duration
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Fault
from ackproof_faults.guard import Guard, inject
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.schedule.blast_radius import BlastRadius, undone
from ackproof_faults.schedule.blocks import every_fault
from ackproof_faults.schedule.observation import (
    Mark,
    Progress,
    Seen,
    Watch,
)
from ackproof_faults.schedule.sampling import (
    Draw,
    Drawn,
    Loop,
    Once,
    Together,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """A fault that was injected, and from when its own triggers to heal count."""

    guard: Guard
    mark: Mark

    @property
    def recovered(self) -> bool:
        """Whether it is known that everything it touched works again."""
        return self.guard.window.recovered_at is not None

    @property
    def healed(self) -> bool:
        """Whether it was healed."""
        return self.guard.window.healed_at is not None


@dataclass(slots=True, kw_only=True)
class Stage:
    """The cluster, the clocks, and every fault so far, in order of injection."""

    cluster: Cluster
    partitions: Sequence[tuple[str, int]]
    progress: Callable[[], Progress]
    clock: Callable[[], datetime]
    monotonic: Callable[[], float]
    draw: Draw
    blast_radius: BlastRadius
    watch: Watch
    injected: list[InForce] = field(default_factory=list)
    #: Why a fault that is due does not begin now; '' if none is held back.
    held_back: str = ""

    def mark(self, leaders: dict[tuple[str, int], int | None]) -> Mark:
        """Return the moment now."""
        return Mark(
            progress=self.progress(), time=self.monotonic(), at=self.clock(), leaders=leaders
        )

    def leaders(
        self, known: dict[tuple[str, int], int | None]
    ) -> dict[tuple[str, int], int | None]:
        """Return each partition's leader; the known one where there is none or nobody can say now.

        With an earlier fault's brokers frozen, the question may go unanswered; without a leader to
        compare with, "changed" would never come true.
        """
        return {
            place: known.get(place) if leader is None else leader
            for place in self.partitions
            for leader in [self.cluster.metadata.leader(*place)]
        }

    def due(
        self, conditions: Conditions, at_latest: float | None, *, mark: Mark, since: int
    ) -> str | None:
        """Return which condition is due, in words; None while none is.

        Other faults' windows count from the one numbered `since`.
        """
        elapsed = self.monotonic() - mark.time
        seen = Seen(
            cluster=self.cluster,
            watch=self.watch,
            progress=self.progress(),
            mark=mark,
            elapsed_s=elapsed,
            windows=[(one.guard.fault.id, one.guard.window) for one in self.injected[since:]],
        )
        if (conditions or at_latest is None) and conditions.hold(seen):
            return str(conditions)
        if at_latest is not None and elapsed >= at_latest:
            return f"after {format_duration(at_latest)}"
        return None

    def has_room(self, fault: Fault, before: Sequence[InForce]) -> bool:
        """Whether the fault may begin now, or must wait until others have recovered.

        `before` are the earlier faults of its sequence: those without an end of their own last
        until it is over.
        Raises FaultError if it never may, or would undo one in force.
        """
        nodes = fault.target.resolve(self.cluster)
        lasting = [one for one in self.injected if not one.healed]
        if clash := undone(
            fault, nodes, [(one.guard.fault, one.guard.window.nodes) for one in lasting]
        ):
            raise FaultError(f"{fault.name} of {fault.target} would undo another fault: {clash}")
        if not fault.disables:
            return True
        recovering = [one for one in self.injected if not one.recovered]
        others = {
            node
            for one in recovering
            if one.guard.fault.disables
            for node in one.guard.window.nodes
        }
        limit = self.blast_radius.exceeded([*nodes, *others], self.cluster)
        if not limit:
            return True
        why = f"{fault.name} of {fault.target} would hit more than {limit} allows"
        if self.blast_radius.exceeded(nodes, self.cluster):
            raise FaultError(why)
        if all(one in before and not one.guard.fault.ends_by_itself for one in lasting) and (
            len(lasting) == len(recovering)
        ):
            lasting_names = ", ".join(
                f"{one.guard.fault.name} of {one.guard.fault.target}" for one in lasting
            )
            raise FaultError(f"{why}, and {lasting_names} in force will not end before it")
        self.held_back = why
        return False


class Running(Protocol):
    """Steps under way."""

    def tick(self) -> None:
        """Do what is due now."""

    def stop(self) -> None:
        """Begin nothing more."""

    @property
    def over(self) -> bool:
        """Whether everything in it has begun, ended and recovered."""

    @property
    def waiting(self) -> list[Fault]:
        """The faults in it that have not begun; of a loop, those of the turn under way."""

    @property
    def unended(self) -> list[Fault]:
        """The faults in it whose own trigger to heal has not come true."""

    @property
    def waiting_for(self) -> str:
        """What it waits for, in words; '' for nothing."""


class InOrder:
    """Steps one after another: the next begins when a fault is verified, or a block is over."""

    def __init__(self, stage: Stage, steps: Sequence[Drawn]) -> None:
        self._stage = stage
        self._left = list(steps)
        self._own: list[InForce] = []
        self._inner: Running | None = None
        self._since = len(stage.injected)
        self._mark = stage.mark(stage.leaders({}))

    def tick(self) -> None:
        """Heal what is due, then begin what is."""
        self._heal_due()
        if self._inner is not None:
            self._inner.tick()
            if self._inner.over:
                self._inner = None
                self._mark = self._stage.mark(self._stage.leaders(self._mark.leaders))
        elif self._left:
            step = self._left[0]
            if isinstance(step, Fault):
                self._begin_fault(step)
            else:
                del self._left[0]
                self._inner = running(self._stage, step)

    def stop(self) -> None:
        """Begin nothing more."""
        self._left.clear()
        if self._inner is not None:
            self._inner.stop()

    @property
    def over(self) -> bool:
        """Whether everything in it has begun, ended and recovered."""
        return not self._left and self._inner is None and all(one.recovered for one in self._own)

    @property
    def waiting(self) -> list[Fault]:
        """The faults that have not begun."""
        inner = self._inner.waiting if self._inner else []
        return inner + [fault for step in self._left for fault in _faults(step)]

    @property
    def unended(self) -> list[Fault]:
        """The faults whose own trigger to heal has not come true."""
        own = [one for one in self._own if not one.healed and one.guard.fault.ends_by_itself]
        return [one.guard.fault for one in own] + (self._inner.unended if self._inner else [])

    @property
    def waiting_for(self) -> str:
        """What it waits for, in words."""
        if self._inner is not None and (inner := self._inner.waiting_for):
            return inner
        if self._left and isinstance(fault := self._left[0], Fault):
            return f"the start of {fault.name} of {fault.target} ({fault.when})"
        for one in self._own:
            window = one.guard.window
            if window.healed_at is None:
                return f"the end of {window.fault} of {window.target} ({one.guard.fault.heal_when})"
            if window.recovered_at is None:
                return f"recovery from {window.fault} of {window.target}"
        return ""

    def _begin_fault(self, fault: Fault) -> None:
        stage = self._stage
        trigger = stage.due(fault.when, fault.or_after, mark=self._mark, since=self._since)
        if trigger is None or not stage.has_room(fault, self._own):
            return
        leaders = stage.leaders(self._mark.leaders)
        guard = inject(fault, stage.cluster, trigger=trigger, clock=stage.clock)
        del self._left[0]
        # Leaders are those before the fault; progress and time count from its verification,
        # because what was acked while it was being put into force may still have been replicated.
        self._mark = stage.mark(leaders)
        self._own.append(InForce(guard=guard, mark=self._mark))
        stage.injected.append(self._own[-1])

    def _heal_due(self) -> None:
        lasting = [one for one in self._own if not one.healed]
        for one in lasting:
            fault = one.guard.fault
            if fault.ends_by_itself and self._stage.due(
                fault.heal_when, fault.heal_after, mark=one.mark, since=self._since
            ):
                one.guard.heal()
        waits = self._left or self._inner is not None
        if not waits and not any(one.guard.fault.ends_by_itself for one in lasting):
            for one in reversed(lasting):
                one.guard.heal()


class AtOnce:
    """Branches side by side."""

    def __init__(self, stage: Stage, branches: Sequence[Once]) -> None:
        self._branches = [InOrder(stage, branch.steps) for branch in branches]

    def tick(self) -> None:
        """Do what is due in each branch."""
        for branch in self._branches:
            branch.tick()

    def stop(self) -> None:
        """Begin nothing more in any."""
        for branch in self._branches:
            branch.stop()

    @property
    def over(self) -> bool:
        """Whether every branch is."""
        return all(branch.over for branch in self._branches)

    @property
    def waiting(self) -> list[Fault]:
        """The faults of every branch that have not begun."""
        return [fault for branch in self._branches for fault in branch.waiting]

    @property
    def unended(self) -> list[Fault]:
        """The faults of every branch whose own trigger to heal has not come true."""
        return [fault for branch in self._branches for fault in branch.unended]

    @property
    def waiting_for(self) -> str:
        """What the branches wait for, in words."""
        return " and ".join(filter(None, (branch.waiting_for for branch in self._branches)))


class InTurns:
    """A loop: a turn begins when the one before is over, and its bounds allow it."""

    def __init__(self, stage: Stage, loop: Loop) -> None:
        self._stage = stage
        self._loop = loop
        self._turns = 0
        self._turn: InOrder | None = None
        self._since = len(stage.injected)
        self._mark = stage.mark(stage.leaders({}))
        self._last = float("-inf")
        self._ended = False

    def tick(self) -> None:
        """Go on with the turn under way, or begin the next."""
        if self._turn is not None:
            self._turn.tick()
            if not self._turn.over:
                return
            self._turn = None
        block, now = self._loop.block, self._stage.monotonic()
        self._ended = self._ended or self._bound_reached(now)
        if self._ended or now < self._last + (block.every or 0.0):
            return
        steps = self._stage.draw.turn(self._loop, self._turns)
        self._turns += 1
        self._last = now
        if steps is not None:
            self._turn = InOrder(self._stage, steps.steps)

    def _bound_reached(self, now: float) -> bool:
        block = self._loop.block
        return (
            (block.repeat is not None and self._turns >= block.repeat)
            or (block.for_ is not None and now - self._mark.time >= block.for_)
            or (
                bool(block.until)
                and self._stage.due(block.until, None, mark=self._mark, since=self._since)
                is not None
            )
        )

    def stop(self) -> None:
        """Begin no further turn, and nothing more in this one."""
        self._ended = True
        if self._turn is not None:
            self._turn.stop()

    @property
    def over(self) -> bool:
        """Whether no further turn will begin, and the last is over."""
        return self._ended and self._turn is None

    @property
    def waiting(self) -> list[Fault]:
        """The faults of the turn under way that have not begun; none if the loop has no end."""
        if self._turn is None:
            return []
        # An endless loop is cut short by the end of the workload; but its first turn must be whole.
        return [] if self._loop.block.endless and self._turns > 1 else self._turn.waiting

    @property
    def unended(self) -> list[Fault]:
        """The faults of the turn under way whose own trigger to heal has not come true."""
        endless = self._loop.block.endless and self._turns > 1
        return [] if endless or self._turn is None else self._turn.unended

    @property
    def waiting_for(self) -> str:
        """What the turn waits for, in words."""
        if self._turn is not None and (inner := self._turn.waiting_for):
            return inner
        return "" if self._ended else f"turn {self._turns + 1} of a loop"


def running(stage: Stage, step: Once | Together | Loop) -> Running:
    """Begin a block."""
    match step:
        case Once():
            return InOrder(stage, step.steps)
        case Together():
            return AtOnce(stage, step.branches)
        case Loop():
            return InTurns(stage, step)


def _faults(step: Drawn) -> list[Fault]:
    """Return the faults of a step that has not begun; those of a loop are not drawn yet."""
    match step:
        case Once():
            return [fault for one in step.steps for fault in _faults(one)]
        case Together():
            return [fault for branch in step.branches for fault in _faults(branch)]
        case Loop():
            return list(every_fault(step.block.sequence))
    return [step]
