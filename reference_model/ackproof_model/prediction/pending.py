"""When the schedule injects or heals a fault, and the targets of an injection."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from ackproof_model.prediction.fault_schedule import (
    AnyOf,
    Condition,
    ElrIs,
    FaultEvent,
    Injection,
    IsrIs,
    IsrSize,
    LeaderChanged,
    LeaderIs,
    Progress,
    Role,
    Wait,
    heal_wait,
    injection_wait,
    leaves,
)
from ackproof_model.prediction.injection import heal, inject
from ackproof_model.prediction.model import Model
from ackproof_model.prediction.producer import is_acked
from ackproof_model.prediction.state import UNSENT, State
from ackproof_model.replication.state import NOBODY, Label


class Cause(IntEnum):
    """Why a fault begins or ends: the last number in the label of that step.

    CONDITIONS: its conditions are met. TIME: the time of `or_after` has passed. ELSEWHERE: other
    partitions make the progress that its conditions count.
    """

    CONDITIONS = 0
    TIME = 1
    ELSEWHERE = 2


def holds(
    model: Model, state: State, condition: Condition, *, since_phase: int, leader: int
) -> bool:
    """Whether a condition holds, counted from phase `since_phase`, when `leader` led.

    `Elapsed` always holds: `prediction.search` bounds time by timers.
    """
    controller = state.controller
    met = True
    match condition:
        case Progress(outcome=outcome, more=more):
            met = not more or _progressed(model, state, outcome, since_phase)
        case IsrSize() | IsrIs() | ElrIs() | LeaderIs():
            met = condition.met_by(controller)
        case LeaderChanged():
            met = controller.leader not in (NOBODY, leader)
        case FaultEvent(fault=fault, event=event):
            met = _happened(state, fault, event)
        case AnyOf(alternatives=alternatives):
            met = any(
                holds(model, state, one, since_phase=since_phase, leader=leader)
                for one in alternatives
            )
    return met


def _progressed(model: Model, state: State, outcome: str, since_phase: int) -> bool:
    """Whether records were acked or sent since a phase.

    The record that is acked at the start represents any number of records.
    """
    if since_phase == 0:
        return True
    statuses = state.client.status[model.phases.index(since_phase) :]
    if outcome == "sent":
        return any(status != UNSENT for status in statuses)
    return any(is_acked(model, status) for status in statuses)


def _happened(state: State, fault: int, event: str) -> bool:
    run = state.run
    if event == "began":
        return run.phase > fault
    healed = bool(run.healed >> fault & 1)
    return healed and (event == "ended" or not run.targets[fault] & ~state.controller.isr)


class Pending:
    """The next injection or heal that the schedule waits for."""

    def __init__(self, model: Model, fault: int, *, heals: bool) -> None:
        self.fault = fault
        self.heals = heals
        injection = model.schedule[fault]
        self.wait: Wait = heal_wait(injection) if heals else injection_wait(injection)
        #: Time counts from the verification of this fault; -1 for the start of the run.
        self.reference = fault if heals else fault - 1
        #: `or_after` without conditions: it waits for time only.
        self.time_only = not self.wait.conditions and self.wait.or_after is not None

    def ready(self, model: Model, state: State) -> bool:
        """Whether the previous fault is verified, and this one has a target."""
        if self.heals:
            return self.fault < state.run.phase
        return self.fault == state.run.phase and bool(target_masks(model, state, self.fault))

    def due(self, model: Model, state: State, *, elsewhere: bool = False) -> bool:
        """Whether its conditions hold in a state in which it is ready.

        elsewhere: other partitions make the required progress.
        """
        return all(
            (elsewhere and isinstance(one, Progress)) or self._holds(model, state, one)
            for one in self.wait.conditions
        )

    def due_in_cluster(self, model: Model, state: State) -> bool:
        """Whether the conditions hold that do not depend on the clients."""
        return all(
            self._holds(model, state, one)
            for one in self.wait.conditions
            if not _awaits_clients(one)
        )

    def _holds(self, model: Model, state: State, condition: Condition) -> bool:
        leader = state.run.leaders[self.reference] if self.reference >= 0 else model.first_leader
        return holds(model, state, condition, since_phase=self.reference + 1, leader=leader)

    def due_in(self, injected: int, healed: int) -> bool:
        """Whether it waits only for faults that have begun, or are healed, in this layer.

        A schedule executes due steps at once: it heals in the order of the faults, and then injects
        (`ackproof_faults.schedule.runners`).
        """
        conditions = self.wait.conditions
        return bool(conditions) and all(
            isinstance(one, FaultEvent)
            and (
                (one.event == "began" and one.fault < injected)
                or (one.event == "ended" and bool(healed >> one.fault & 1))
            )
            for one in conditions
        )

    @property
    def awaits_clients(self) -> bool:
        """Whether a condition depends on the clients."""
        return any(map(_awaits_clients, self.wait.conditions))

    @property
    def counts_progress(self) -> bool:
        """Whether a condition counts records."""
        return any(isinstance(c, Progress) for c in self.wait.conditions)

    def fire(self, model: Model, state: State) -> Iterator[tuple[Label, State]]:
        """Yield its possible results, as (label, state)."""
        if self.heals:
            yield ("heal", self.fault), heal(model, state, self.fault)
            return
        for mask in target_masks(model, state, self.fault):
            for after in inject(model, state, self.fault, mask):
                yield ("inject", self.fault, mask), after


def _awaits_clients(condition: Condition) -> bool:
    return any(isinstance(one, Progress) for one in leaves([condition]))


def target_masks(model: Model, state: State, fault: int) -> list[int]:
    """Return the sets of replicas that a fault may hit now; empty if it has no target."""
    injection: Injection = model.schedule[fault]
    if not injection.effects or not injection.targets:
        return [0]
    leader = state.controller.leader
    if leader == NOBODY and injection.targets & {Role.LEADER, Role.FOLLOWERS}:
        return []
    fixed = sum(1 << replica for replica in injection.targets if isinstance(replica, int))
    fixed &= model.policy.everyone
    if Role.SAME in injection.targets and state.run.targets:
        fixed |= state.run.targets[-1]
    if Role.LEADER in injection.targets:
        fixed |= 1 << leader
    if Role.FOLLOWERS in injection.targets:
        fixed |= model.policy.everyone & ~(1 << leader)
    if Role.ANY_ONE not in injection.targets:
        return [fixed]
    masks = {fixed | 1 << replica for replica in range(model.replicas)}
    brokers = model.configuration.brokers
    if brokers is not None and brokers > model.replicas:
        masks.add(fixed)  # a broker without a replica of this partition
    return sorted(masks)
