"""Run sampled steps against a cluster: in sequence, in parallel, or in a loop; and whole schedules.

A runner does what is due at each `tick`. It never sleeps and never waits for a condition, so that
Ctrl-C and a workload that ends are noticed at once. The code that runs the workload calls
`Schedule.tick` every few milliseconds. All runners of a schedule share one `ScheduleContext`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ackproof_faults.conditions.observation import ReferencePoint
from ackproof_faults.conditions.trigger import Conditions
from ackproof_faults.evidence import FaultError, FaultWindow
from ackproof_faults.fault import Fault
from ackproof_faults.guard import resolved
from ackproof_faults.schedule.blocks import every_fault
from ackproof_faults.schedule.context import InjectedFault, ScheduleContext
from ackproof_faults.schedule.sampling import (
    SampledLoop,
    SampledParallel,
    SampledSequence,
    SampledStep,
    flat,
)

if TYPE_CHECKING:
    from ackproof_faults.schedule.blocks import Step


class SequenceRunner:
    """Runs one step after another: the next begins when a fault is verified, or a block is over.

    A fault that waits for its first message does not hold up the next.
    """

    def __init__(self, context: ScheduleContext, steps: Sequence[SampledStep]) -> None:
        self._context = context
        self._remaining = list(steps)
        self._injected: list[InjectedFault] = []
        self._block: StepRunner | None = None
        self._first_window = len(context.injected)
        self._reference = context.reference(context.leaders({}))

    def tick(self) -> None:
        self._verify_waiting()
        self._heal_due()
        if self._block is not None:
            self._block.tick()
            if self._block.done:
                self._block = None
                leaders = self._context.leaders(self._reference.leaders)
                self._reference = self._context.reference(leaders)
        elif self._remaining:
            step = self._remaining[0]
            if isinstance(step, Fault):
                self._begin_fault(step)
            else:
                del self._remaining[0]
                self._block = _runner(self._context, step)

    def stop(self) -> None:
        """Begin no further fault."""
        self._remaining.clear()
        if self._block is not None:
            self._block.stop()

    @property
    def done(self) -> bool:
        """Whether every fault of the steps has begun, was healed and has recovered."""
        begun = not self._remaining and self._block is None
        return begun and all(one.recovered for one in self._injected)

    @property
    def waiting(self) -> list[Fault]:
        """The faults that have not begun; of a loop, those of the current turn."""
        in_block = self._block.waiting if self._block else []
        return in_block + list(_faults(self._remaining))

    @property
    def unended(self) -> list[Fault]:
        """The faults in force whose `heal_when` has not been met."""
        own = [one.guard.fault for one in self._injected if not one.healed]
        in_block = self._block.unended if self._block else []
        return [fault for fault in own if fault.ends_by_itself] + in_block

    @property
    def waiting_for(self) -> str:
        """What the steps wait for, in words; '' for nothing."""
        if self._block is not None and (in_block := self._block.waiting_for):
            return in_block
        if self._remaining and isinstance(fault := self._remaining[0], Fault):
            unmet = self._unmet(fault.when, self._reference) or str(fault.when)
            return f"the start of {fault} ({unmet})"
        for one in self._injected:
            if one.guard.waiting:
                return f"the first message of {one}"
            if not one.healed:
                conditions = one.guard.fault.heal_when
                unmet = self._unmet(conditions, one.reference) or str(conditions)
                return f"the end of {one} ({unmet})"
            if not one.recovered:
                return f"recovery from {one}"
        return ""

    @property
    def needs_sends(self) -> bool:
        """Whether the steps can only go on after further sends."""
        if self._block is not None:
            return self._block.needs_sends
        waits = [
            (one.guard.fault.heal_when, one.guard.fault.heal_after, one.reference)
            for one in self._injected
            if not one.healed and one.guard.fault.ends_by_itself
        ]
        if self._remaining and isinstance(fault := self._remaining[0], Fault):
            waits.append((fault.when, fault.or_after, self._reference))
        return any(
            self._context.needs_sends(
                conditions, at_latest_s, reference=reference, first_window=self._first_window
            )
            for conditions, at_latest_s, reference in waits
        )

    def _unmet(self, conditions: Conditions, reference: ReferencePoint) -> str:
        return self._context.unmet(conditions, reference=reference, first_window=self._first_window)

    def _begin_fault(self, fault: Fault) -> None:
        context = self._context
        trigger = context.due(
            fault.when, fault.or_after, reference=self._reference, first_window=self._first_window
        )
        if trigger is None or not context.may_begin(fault, self._injected):
            return
        leaders = context.leaders(self._reference.leaders)
        guard = resolved(fault, context.cluster, trigger=trigger, clock=context.clock)
        guard.begin()
        del self._remaining[0]
        # Leaders are those before the fault. Sends and time count from its verification, because a
        # record that was acked during the injection may still have been replicated.
        self._reference = context.reference(leaders)
        self._injected.append(InjectedFault(guard=guard, reference=self._reference))
        context.injected.append(self._injected[-1])

    def _verify_waiting(self) -> None:
        for one in self._injected:
            if one.guard.waiting:
                one.guard.check()
                if not one.guard.waiting:
                    one.reference = self._context.reference(one.reference.leaders)
                    if one is self._injected[-1] and self._block is None:
                        self._reference = one.reference

    def _heal_due(self) -> None:
        in_force = [one for one in self._injected if not one.healed]
        for one in in_force:
            fault = one.guard.fault
            if one.guard.waiting:
                continue
            if fault.ends_by_itself and self._context.due(
                fault.heal_when,
                fault.heal_after,
                reference=one.reference,
                first_window=self._first_window,
            ):
                one.guard.heal()
        begun = not self._remaining and self._block is None
        lasting = [one for one in in_force if one.guard.waiting or one.guard.fault.ends_by_itself]
        if begun and not lasting:
            for one in reversed(in_force):
                one.guard.heal()


class ParallelRunner:
    """Runs several sequences at the same time."""

    def __init__(self, context: ScheduleContext, branches: Sequence[SampledSequence]) -> None:
        self._branches = [SequenceRunner(context, branch.steps) for branch in branches]

    def tick(self) -> None:
        for branch in self._branches:
            branch.tick()

    def stop(self) -> None:
        for branch in self._branches:
            branch.stop()

    @property
    def done(self) -> bool:
        return all(branch.done for branch in self._branches)

    @property
    def waiting(self) -> list[Fault]:
        return [fault for branch in self._branches for fault in branch.waiting]

    @property
    def unended(self) -> list[Fault]:
        return [fault for branch in self._branches for fault in branch.unended]

    @property
    def waiting_for(self) -> str:
        return " and ".join(filter(None, (branch.waiting_for for branch in self._branches)))

    @property
    def needs_sends(self) -> bool:
        return any(branch.needs_sends for branch in self._branches)


class LoopRunner:
    """Runs turns of a loop: each begins when the last is over and the loop's bounds allow it."""

    def __init__(self, context: ScheduleContext, loop: SampledLoop) -> None:
        self._context = context
        self._loop = loop
        self._turns = 0
        self._turn: SequenceRunner | None = None
        self._first_window = len(context.injected)
        self._reference = context.reference(context.leaders({}))
        self._turn_began_s = float("-inf")
        self._ended = False

    def tick(self) -> None:
        if self._turn is not None:
            self._turn.tick()
            if not self._turn.done:
                return
            self._turn = None
        now = self._context.monotonic()
        self._ended = self._ended or self._bound_reached(now)
        if self._ended or now < self._turn_began_s + (self._loop.block.every or 0.0):
            return
        turn = self._context.sampler.turn(self._loop, self._turns)
        self._turns += 1
        self._turn_began_s = now
        if turn is not None:
            self._turn = SequenceRunner(self._context, turn.steps)

    def _bound_reached(self, now: float) -> bool:
        block = self._loop.block
        if block.repeat is not None and self._turns >= block.repeat:
            return True
        if block.for_ is not None and now - self._reference.monotonic_s >= block.for_:
            return True
        return bool(block.until) and (
            self._context.due(
                block.until, None, reference=self._reference, first_window=self._first_window
            )
            is not None
        )

    def stop(self) -> None:
        self._ended = True
        if self._turn is not None:
            self._turn.stop()

    @property
    def done(self) -> bool:
        return self._ended and self._turn is None

    @property
    def waiting(self) -> list[Fault]:
        return self._turn.waiting if self._turn is not None and self._must_finish else []

    @property
    def unended(self) -> list[Fault]:
        return self._turn.unended if self._turn is not None and self._must_finish else []

    @property
    def _must_finish(self) -> bool:
        """Whether the current turn must be completed; in an endless loop, only the first."""
        return not self._loop.block.endless or self._turns <= 1

    @property
    def waiting_for(self) -> str:
        if self._turn is not None and (in_turn := self._turn.waiting_for):
            return in_turn
        return "" if self._ended else f"turn {self._turns + 1} of a loop"

    @property
    def needs_sends(self) -> bool:
        """An endless loop ends with the workload, so it needs one."""
        return self._loop.block.endless or (self._turn is not None and self._turn.needs_sends)


StepRunner = SequenceRunner | ParallelRunner | LoopRunner


def _runner(
    context: ScheduleContext, block: SampledSequence | SampledParallel | SampledLoop
) -> StepRunner:
    match block:
        case SampledSequence():
            return SequenceRunner(context, block.steps)
        case SampledParallel():
            return ParallelRunner(context, block.branches)
        case SampledLoop():
            return LoopRunner(context, block)


def _faults(steps: Sequence[SampledStep]) -> Iterator[Fault]:
    """Yield the faults of steps that have not begun; those of a loop are not sampled yet."""
    for step in flat(steps):
        yield from every_fault(step.block.sequence) if isinstance(step, SampledLoop) else [step]


class Schedule(SequenceRunner):
    """A schedule: each fault begins and is healed on its triggers, and recovers."""

    def __init__(self, steps: Sequence[Step], context: ScheduleContext) -> None:
        super().__init__(context, context.sampler.schedule(steps).steps)

    @property
    def windows(self) -> list[FaultWindow]:
        """The window of every fault so far, in order of injection."""
        return [one.guard.window for one in self._context.injected]

    @property
    def in_force(self) -> list[str]:
        """The faults that are verified and not healed, in words."""
        injected = self._context.injected
        return [str(one) for one in injected if one.guard.window.verified and not one.healed]

    @property
    def waiting_for(self) -> str:
        """What the schedule waits for, in words, for progress and error messages."""
        return self._context.held_back or super().waiting_for or self._recovering or "nothing"

    @property
    def held_back(self) -> str:
        """Why a fault that is due waits for the recovery of others; '' if none does."""
        return self._context.held_back

    @property
    def _recovering(self) -> str:
        unrecovered = (one for one in self._context.injected if not one.recovered)
        return next((f"recovery from {one}" for one in unrecovered), "")

    def tick(self) -> None:
        """Inject, heal and check recovery, as far as conditions allow now.

        Raises FaultError if no node has the role of a fault's target, a fault cannot be healed, a
        fault would undo another, or no recovery can make room for it in the blast radius.
        """
        self._context.held_back = ""
        super().tick()
        self.check_recovered()

    def heal_all(self) -> None:
        """Cancel the faults that have not begun, and heal those in force, the newest first.

        Raises FaultError, after trying all, if a fault cannot be healed.
        """
        self.stop()
        errors = []
        for one in reversed(self._context.injected):
            try:
                one.guard.heal()
            except FaultError as error:
                errors.append(f"{one}: {error}")
        if errors:
            raise FaultError("not healed: " + "; ".join(errors))

    def check_recovered(self) -> bool:
        """Check every injected fault; return whether all are healed and have recovered."""
        recovered = [one.guard.recovered() for one in self._context.injected]
        return all(recovered)
