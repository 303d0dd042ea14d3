"""From a way to a loss to the operations that take it, on a cluster where nothing dawdles.

`adversary.search` says that a loss exists, and what perturbs the cluster on the way. The trace is
not a schedule: between its steps the adversary may delay anything. So operations are searched that
do the same perturbations and lose acked records although everything else happens at once. What has
to be delayed must be an operation of its own, a cut link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from ackproof_model.adversary.bounds import AdversaryModel, Budgets
from ackproof_model.adversary.search import AdversaryResult
from ackproof_model.adversary.state import Label
from ackproof_model.adversary.successors import lost
from ackproof_model.planning.plan_state import (
    CUTS,
    HEALS,
    PROCESS_STOPS,
    Operation,
    OperationKind,
    PlanState,
    done,
    opening,
)
from ackproof_model.planning.settling import produce, settle

#: How many records a schedule's producers may write, one or two after each operation.
_RECORDS = 7
#: So many schedules are looked at, at most, in each way of looking for one.
_MOST_SCHEDULES = 5_000
#: A schedule has at most so many operations.
MOST_OPERATIONS = 8

#: Which perturbation of the adversary's is which kind.
_OPERATIONS = {
    "kill": OperationKind.KILL,
    "lose power": OperationKind.LOSE_POWER,
    "stop": OperationKind.STOP,
    "shrink": OperationKind.LAG,
    "cut off": OperationKind.CUT_OFF,
}


#: Stands for a broker, whichever.
ANY = -1

#: How often each kind may be done, to a broker or to any.
Wanted = Counter[tuple[OperationKind, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What an operation leads to (None: the start); `kinds` are those of what happened by itself.

    `probe` is the record that was written when all had come to rest, None if nobody took one.
    `strays`: a follower left the ISR that no LAG holds, but a cut that should only have delayed it.
    """

    operation: Operation | None
    plan_state: PlanState
    kinds: tuple[str, ...]
    probe: int | None
    strays: bool

    @property
    def settled(self) -> bool:
        """Whether it has come to rest, timers included."""
        return self.operation is None or self.operation.settled


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Operations, and what they lead to.

    lost: the acked records that are gone in the end, when everything has been healed.
    """

    model: AdversaryModel
    stages: tuple[Stage, ...]
    lost: int

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations in their order."""
        return tuple(one.operation for one in self.stages if one.operation is not None)

    def fate(self, stage: Stage) -> str:
        """Say what becomes of records that are sent once a stage has come to rest.

        'none' are acked by then; or all that are acked are 'lost', or 'kept'.
        """
        if stage.probe is None or not stage.plan_state.state.writes.acked >> stage.probe & 1:
            return "none"
        return "lost" if self.lost >> stage.probe & 1 else "kept"


def realized(answer: AdversaryResult) -> Plan | None:
    """Return the shortest operations that do what a trace's perturbations do, and lose records.

    If possible each waits until the one before has come to rest, which does not hang on how fast
    an operator is; and if possible they hit the trace's brokers, else any. None if there are none
    of `MOST_OPERATIONS` among the first thousands.
    """
    wanted: Wanted = Counter()
    for label, _ in answer.trace:
        what, *brokers = label
        if what in _OPERATIONS:
            wanted[_OPERATIONS[what], brokers[1] if what == "shrink" else brokers[0]] += 1
    anywhere: Wanted = Counter()
    for (kind, _), times in wanted.items():
        anywhere[kind, ANY] += times
    model = writing(answer.model)
    for patient in (True, False):
        for allowed in (wanted, anywhere):
            reached = explored(model, allowed, most=MOST_OPERATIONS, patient=patient)
            for stages in islice(reached, _MOST_SCHEDULES):
                last = stages[-1]
                if last.settled and lost(last.plan_state.state):
                    plan = whole(model, stages)
                    if plan.lost:
                        return plan
    return None


def explored(
    model: AdversaryModel, allowed: Wanted, *, most: int, patient: bool
) -> Iterator[tuple[Stage, ...]]:
    """Yield every schedule of at most `most` operations to a new plan_state, the short ones first.

    Each kind of `allowed` at most as often as it says; what ends a kind, and a cut that keeps
    followers from fetching, as often as may be. `patient`: all but such a cut come to rest.
    """
    layer: list[tuple[tuple[Stage, ...], Wanted]] = [((_first(model),), allowed)]
    seen = set()
    for _ in range(most):
        following = []
        for stages, left in layer:
            for operation, remaining in _next(model, stages[-1].plan_state, left, patient):
                stage = _after(model, stages[-1].plan_state, operation)
                if stage is None or stage.strays:
                    continue
                key = (stage.plan_state, stage.settled, frozenset(remaining.items()))
                if key not in seen:
                    seen.add(key)
                    following.append(((*stages, stage), remaining))
                    yield following[-1][0]
        layer = following


def carried_out(model: AdversaryModel, operations: Sequence[Operation]) -> Plan | None:
    """Return what operations lead to, None if they cannot be carried out."""
    model = writing(model)
    stages = [_first(model)]
    for operation in operations:
        stage = _after(model, stages[-1].plan_state, operation)
        if stage is None:
            return None
        stages.append(stage)
    return whole(model, stages)


def with_clean_stops(plan: Plan) -> Plan | None:
    """Return the same operations with every process shut down in a controlled way.

    None if that is no schedule, or if no process is ended.
    """
    if not any(
        one.kind in (OperationKind.KILL, OperationKind.LOSE_POWER) for one in plan.operations
    ):
        return None
    clean = [
        replace(one, kind=OperationKind.STOP) if one.kind in PROCESS_STOPS else one
        for one in plan.operations
    ]
    return carried_out(plan.model, clean)


def writing(model: AdversaryModel) -> AdversaryModel:
    """Return the model for producers that write on: as many records as can be told apart."""
    return replace(model, budgets=Budgets(records=_RECORDS))


def whole(model: AdversaryModel, stages: Sequence[Stage]) -> Plan:
    """Return the plan of these stages, with all healed in the end, what began last first."""
    plan_state = stages[-1].plan_state
    for operation in reversed(plan_state.in_force):
        kind = OperationKind.START if operation.kind in PROCESS_STOPS else OperationKind.JOIN
        ends = operation.kind if kind is OperationKind.JOIN else None
        healed = done(model, plan_state, Operation(kind=kind, broker=operation.broker, ends=ends))
        if healed is not None:
            plan_state = _rest(model, healed)
    leader = plan_state.state.partition.controller.leader
    log = plan_state.state.replicas[leader].log if leader >= 0 else 0
    return Plan(model=model, stages=tuple(stages), lost=plan_state.state.writes.acked & ~log)


def _rest(model: AdversaryModel, plan_state: PlanState) -> PlanState:
    for _, after in settle(model, plan_state, timers=True):
        plan_state = after
    return plan_state


def _first(model: AdversaryModel) -> Stage:
    return _settled(model, None, opening(model), settled=True)


def _after(model: AdversaryModel, plan_state: PlanState, operation: Operation) -> Stage | None:
    """Return the stage that an operation leads to, None if it cannot be done now."""
    if operation.kind in HEALS and not operation.settled:
        return None
    begun = done(model, plan_state, operation)
    if begun is None:
        return None
    return _settled(model, operation, begun, settled=operation.settled)


def _settled(
    model: AdversaryModel, operation: Operation | None, plan_state: PlanState, *, settled: bool
) -> Stage:
    """Return a stage: producers write on while it comes to rest, and once more afterwards."""
    kinds: dict[str, None] = {}
    probe, strays = None, False

    def rest(*, timers: bool) -> bool:
        nonlocal plan_state, strays
        before = plan_state
        for label, after in settle(model, plan_state, timers=timers):
            kinds[kind_of(label, plan_state, after)] = None
            what, *names = label
            strays |= what == "shrink" and not plan_state.held(OperationKind.LAG, names[1])
            plan_state = after
        return plan_state is not before

    for timers in (False, True) if settled else (False,):
        moved = rest(timers=timers)
        if timers and not moved and probe is not None:
            break
        wrote = produce(model, plan_state)
        probe = None
        if wrote is not None:
            (_, *names), plan_state = wrote
            probe = names[1]
            rest(timers=False)
    return Stage(
        operation=operation, plan_state=plan_state, kinds=tuple(kinds), probe=probe, strays=strays
    )


def kind_of(label: Label, before: PlanState, after: PlanState) -> str:
    """Say what kind of step it was: its name, and what it did to leader and ISR."""
    old, new = before.state.partition.controller, after.state.partition.controller
    told = []
    if new.leader != old.leader:
        if new.leader < 0:
            told.append("no leader")
        else:
            bit = 1 << new.leader
            where = "ISR" if old.isr & bit else "ELR" if old.elr & bit else "outside"
            told.append(f"leader from the {where}")
    if new.isr != old.isr:
        told.append("ISR grows" if new.isr & ~old.isr else "ISR shrinks")
    return f"{label[0]}: {', '.join(told)}" if told else label[0]


def _next(
    model: AdversaryModel, plan_state: PlanState, left: Wanted, patient: bool
) -> Iterator[tuple[Operation, Wanted]]:
    """Yield the operations that may come next, and what is allowed after each."""
    for kind, broker in sorted(left):
        rest = Counter(left)
        rest[kind, broker] -= 1
        for number in range(model.replicas) if broker == ANY else (broker,):
            for settled in (True,) if patient else (True, False):
                yield Operation(kind=kind, broker=number, settled=settled), +rest
    leader = plan_state.state.partition.controller.leader
    if leader >= 0:
        yield Operation(kind=OperationKind.WITHHOLD, broker=leader, settled=False), left
    for one in plan_state.in_force:
        if one.kind in CUTS:
            yield Operation(kind=OperationKind.JOIN, broker=one.broker, ends=one.kind), left
        else:
            yield Operation(kind=OperationKind.START, broker=one.broker), left
