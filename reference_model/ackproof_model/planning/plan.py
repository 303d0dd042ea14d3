"""From a trace that loses records to operations that do so on a cluster of prompt brokers.

The trace of `adversary.search` is not a schedule: the adversary may delay any step. This module
searches for operations that make the same perturbations and lose acked records although all other
steps are prompt. A necessary delay becomes an operation of its own, a cut link.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, count, islice
from operator import attrgetter, ne
from typing import Any

from ackproof_model.adversary.search import AdversaryResult
from ackproof_model.adversary.state import AdversaryModel, Budgets, State, initial
from ackproof_model.adversary.successors import lost
from ackproof_model.breadth_first import reachable
from ackproof_model.coverage.pairs import Pair, pair_of
from ackproof_model.planning.plan_state import (
    FREE,
    HEALS,
    HOLDS,
    PROCESS_STOPS,
    Operation,
    OperationKind,
    PlanState,
    fetches,
    initial_plan_state,
    performed,
    produce,
    settle,
)
from ackproof_model.replication.controller import preferred
from ackproof_model.replication.state import Label, members

#: The most records that a plan writes, one or two after each operation.
_RECORDS = 7
#: The most schedules that each search examines.
_MOST_SCHEDULES = 5_000
#: The most operations of a schedule.
MOST_OPERATIONS = 8

#: The operation for each perturbation of the adversary.
_OPERATIONS = {
    "kill": OperationKind.KILL,
    "lose power": OperationKind.LOSE_POWER,
    "stop": OperationKind.STOP,
    "shrink": OperationKind.LAG,
    "cut off": OperationKind.CUT_OFF,
    "move leader": OperationKind.ELECT,
    "reassign": OperationKind.REASSIGN,
    "cancel": OperationKind.REASSIGN,
}

#: The step that an operation takes at once; the others take theirs when a timer fires.
_STEPS = {
    OperationKind.KILL: "kill",
    OperationKind.LOSE_POWER: "lose power",
    OperationKind.STOP: "stop",
    OperationKind.START: "restart",
    OperationKind.ELECT: "move leader",
    OperationKind.REASSIGN: "reassign",
    OperationKind.CANCEL: "cancel",
}

#: Stands for any broker.
ANY = -1

#: How often each kind of operation is allowed, by broker, or for `ANY`. A CANCEL is a REASSIGN.
Allowance = Counter[tuple[OperationKind, int]]

#: An operation, its stage, and the allowance after it.
_Taken = tuple[Operation, tuple["Stage", tuple[Allowance, ...]]]

#: Whether an operation may follow another one (None: the start).
_Useful = Callable[[Operation | None, Operation], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The result of one operation (None: the start).

    kinds: the kinds of steps that followed. pairs: the steps with the shapes of the partition,
    that of the operation included. probe: the record that was written after all steps, None if no
    broker accepted it. unheard: a follower that may truncate to its high watermark has not heard
    that the last record is committed. strays: a follower left the ISR because of a cut that should
    only have delayed it, not because of a LAG.
    """

    operation: Operation | None
    plan_state: PlanState
    kinds: tuple[str, ...]
    pairs: tuple[Pair, ...]
    probe: int | None
    unheard: bool
    strays: bool

    @property
    def settled(self) -> bool:
        """Whether all steps have been taken, those of timers included."""
        return self.operation is None or self.operation.settled


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A schedule of operations and its result.

    lost: the acked records that are lost after all operations are healed. diverged: then replicas
    in sync hold different records.
    """

    model: AdversaryModel
    stages: tuple[Stage, ...]
    lost: int
    diverged: bool

    @property
    def operations(self) -> tuple[Operation, ...]:
        return tuple(one.operation for one in self.stages if one.operation is not None)

    @property
    def pairs(self) -> frozenset[Pair]:
        return frozenset(pair for stage in self.stages for pair in stage.pairs)

    def fate(self, stage: Stage) -> str:
        """Return what happens to records that are sent after a stage has settled.

        'none': they are not acked. 'lost', 'kept': they are acked, and all, or none, are lost.
        'some': at least the last of them are lost, unless a follower hears of it sooner.
        """
        if stage.probe is None or not stage.plan_state.state.writes.acked >> stage.probe & 1:
            return "none"
        if not self.lost >> stage.probe & 1:
            return "kept"
        return "some" if stage.unheard else "lost"


_LOST, _DIVERGED = attrgetter("lost"), attrgetter("diverged")


def realized(answer: AdversaryResult) -> Plan | None:
    """Return the shortest schedule that makes a trace's perturbations and loses records.

    If possible, each operation waits until the previous one has settled, and the operations hit the
    brokers of the trace. None if no schedule of at most `MOST_OPERATIONS` was found.
    """
    order = [
        (_OPERATIONS[what], brokers[1] if what == "shrink" else brokers[0])
        for (what, *brokers), _ in answer.trace
        if what in _OPERATIONS
    ]
    model = with_records(answer.model)
    if model.misses_epochs or model.moves:
        allowances = [[Counter([one]) for one in order], [Counter(order)]]
        useful = _useful(answer)
    else:
        anywhere = Counter((kind, ANY) for kind, _ in order)
        allowances, useful = [[Counter(order)], [anywhere]], None
    return _shortest(model, allowances, lost, _LOST, useful)


def shortest_loss(model: AdversaryModel) -> Plan | None:
    """Return the shortest schedule within a model's budgets that loses records.

    If possible, each operation waits until the previous one has settled. None if no schedule of at
    most `MOST_OPERATIONS` was found.
    """
    within = model.budgets.perturbations
    return _shortest(with_records(model), [[allowance(model)]], lost, _LOST, within=within)


def shortest_divergence(model: AdversaryModel) -> Plan | None:
    """Return the shortest schedule after which replicas in sync hold different records.

    As `shortest_loss`, and None if followers truncate all that a new leader lacks.
    """
    if model.profile.truncates_by_epoch:
        return None
    within = model.budgets.perturbations
    return _shortest(with_records(model), [[allowance(model)]], _differ, _DIVERGED, within=within)


def _shortest(
    model: AdversaryModel,
    allowances: Sequence[Sequence[Allowance]],
    may_show: Callable[[State], Any],
    shows: Callable[[Plan], Any],
    useful: _Useful | None = None,
    *,
    within: float = math.inf,
) -> Plan | None:
    """Return the shortest schedule within the first of the allowances that has one that shows it.

    may_show: whether it may do so after the last operation, before all are healed. within: the most
    perturbations.
    """
    for patient in (True, False):
        for allowed in allowances:
            reached = explored(
                model,
                allowed,
                most=MOST_OPERATIONS,
                patient=patient,
                useful=useful,
                within=within,
            )
            for stages in islice(reached, _MOST_SCHEDULES):
                last = stages[-1]
                if last.settled and may_show(last.plan_state.state):
                    plan = completed(model, stages)
                    if shows(plan):
                        return plan
    return None


def _differ(state: State) -> bool:
    """Whether two brokers hold different records at one offset."""
    pairs = combinations(state.brokers, 2)
    return any(any(map(ne, one.log, other.log)) for one, other in pairs)


def _useful(answer: AdversaryResult) -> _Useful:
    """Return whether an operation may come next, so that requests can be held in few orders.

    Only brokers start and join that do so in the trace, and holds in a row have one order. Requests
    for another ISR are held only if one that joins starts, others only if a leader misses an epoch.
    """
    labels = [label for label, _ in answer.trace]
    started = {numbers[0] for what, *numbers in labels if what == "restart"}
    joining = {numbers[-1] for what, *numbers in labels if what == "expand"}
    states = [initial(answer.model), *(state for _, state in answer.trace)]
    late = any(
        then.epoch > now.epoch + 1 and then.leader == now.leader == number
        for (what, *_), before, after in zip(labels, states, states[1:], strict=False)
        for number, now, then in zip(count(), before.brokers, after.brokers, strict=False)
        if what == "learn"
    )

    def useful(last: Operation | None, operation: Operation) -> bool:
        kind, broker = operation.kind, operation.broker
        if kind is OperationKind.START:
            return broker in started
        if kind is OperationKind.JOIN:
            of_leader = operation.ends in (OperationKind.HOLD_METADATA, OperationKind.HOLD_ISR)
            return of_leader or broker in joining
        if kind in HOLDS and not (started & joining if kind is OperationKind.HOLD_ISR else late):
            return False
        if last is None or last.kind in HEALS or not {last.kind, kind} <= {*FREE}:
            return True
        return (last.kind, last.broker) < (kind, broker)

    return useful


def explored(
    model: AdversaryModel,
    allowed: Sequence[Allowance],
    *,
    most: int,
    patient: bool,
    useful: _Useful | None = None,
    within: float = math.inf,
) -> Iterator[tuple[Stage, ...]]:
    """Yield a schedule of at most `most` operations to each plan state, the short ones first.

    `allowed` bounds each kind of operation; the first is used up before the next one counts.
    `within` bounds all together. Operations that heal or delay are free. patient: every operation
    but those that delay settles.
    """
    first = first_stage(model)
    least = sum(one.total() for one in allowed) - within

    def steps(reached: tuple[Stage, tuple[Allowance, ...]]) -> Iterator[_Taken]:
        stage, (left, *later) = reached[0], reached[1] or (Counter(),)
        for after, remaining in following(model, stage, left, patient=patient, useful=useful):
            assert after.operation is not None
            rest = later if later and not remaining else (remaining, *later)
            if sum(one.total() for one in rest) >= least:
                yield after.operation, (after, tuple(rest))

    def key(reached: tuple[Stage, tuple[Allowance, ...]]) -> object:
        stage, left = reached
        return stage.plan_state, stage.settled, tuple(frozenset(one.items()) for one in left)

    for reached in reachable((first, tuple(allowed)), steps, key=key, depth=most):
        if reached.depth:
            yield (first, *(stage for _, (stage, _) in reached.trace))


def following(
    model: AdversaryModel,
    stage: Stage,
    left: Allowance,
    *,
    patient: bool,
    useful: _Useful | None = None,
    holds: Sequence[OperationKind] = (),
) -> Iterator[tuple[Stage, Allowance]]:
    """Yield the stage after each operation that may come next, and the allowance after it.

    holds: those of CLIENT_HOLDS that may come.
    """
    for operation, remaining in _next(model, stage.plan_state, left, patient, holds):
        if useful is not None and not useful(stage.operation, operation):
            continue
        after = _after(model, stage.plan_state, operation)
        if after is not None and not after.strays:
            yield after, remaining


def carried_out(model: AdversaryModel, operations: Sequence[Operation]) -> Plan | None:
    """Return the plan of these operations, None if one of them is not possible."""
    model = with_records(model)
    stages = reached(model, tuple(operations))
    return completed(model, stages) if stages else None


@cache
def reached(model: AdversaryModel, operations: tuple[Operation, ...]) -> tuple[Stage, ...] | None:
    """Return the stage after each of these operations, None if one of them is not possible.

    Schedules with the same beginning carry it out once.
    """
    if not operations:
        return (first_stage(model),)
    before = reached(model, operations[:-1])
    after = _after(model, before[-1].plan_state, operations[-1]) if before else None
    return (*before, after) if before and after else None


def held_requests(stages: Sequence[Stage]) -> dict[int, int]:
    """Return in which stage each hold of ISR requests meets one first, by the stage of the hold.

    A hold that meets none is left out.
    """
    met = {}
    for began, stage in enumerate(stages):
        hold = stage.operation
        if hold is not None and hold.kind is OperationKind.HOLD_ISR:
            for number, later in enumerate(stages[began:], began):
                if hold not in later.plan_state.in_force:
                    break
                if later.plan_state.state.brokers[hold.broker].pending:
                    met[began] = number
                    break
    return met


def with_clean_stops(plan: Plan) -> Plan | None:
    """Return the plan with a controlled shutdown in place of each kill and power loss.

    None if that is impossible, or if the plan has no kill or power loss.
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


def with_records(model: AdversaryModel) -> AdversaryModel:
    """Return the model with as many records as a plan may write, and no perturbations.

    The order of its replicas may change if there are elections.
    """
    ordered = model.misses_epochs and not model.profile.zookeeper
    ordered = ordered and model.min_insync_replicas <= model.replicas
    moves = int(model.moves or ordered)
    return replace(model, budgets=Budgets(records=_RECORDS, reassignments=moves))


def completed(model: AdversaryModel, stages: Sequence[Stage]) -> Plan:
    """Return the plan of these stages; at the end all operations are healed, the newest first.

    A broker that is cut off from the controllers starts after this has been healed.
    """
    plan_state = stages[-1].plan_state
    while healed := next(_healed(model, plan_state), None):
        plan_state = _rest(model, healed)
    controller, brokers = plan_state.state.controller, plan_state.state.brokers
    log = brokers[controller.leader].records if controller.leader >= 0 else -1
    in_sync = tuple(brokers[number] for number in members(controller.isr))
    return Plan(
        model=model,
        stages=tuple(stages),
        lost=plan_state.state.writes.acked & ~log,
        diverged=_differ(plan_state.state._replace(brokers=in_sync)),
    )


def _healed(model: AdversaryModel, plan_state: PlanState) -> Iterator[PlanState]:
    """Yield the state after the end of each operation in force that can end now."""
    for operation in reversed(plan_state.in_force):
        kind = OperationKind.START if operation.kind in PROCESS_STOPS else OperationKind.JOIN
        ends = operation.kind if kind is OperationKind.JOIN else None
        heal = Operation(kind=kind, broker=operation.broker, ends=ends)
        if (healed := performed(model, plan_state, heal)) is not None:
            yield healed


def _rest(model: AdversaryModel, plan_state: PlanState) -> PlanState:
    for _, after in settle(model, plan_state, timers=True):
        plan_state = after
    return plan_state


def first_stage(model: AdversaryModel) -> Stage:
    return _settled(model, None, initial_plan_state(model), settled=True)


def _after(model: AdversaryModel, plan_state: PlanState, operation: Operation) -> Stage | None:
    """Return the stage that an operation leads to, None if it is not possible now."""
    if operation.kind in HEALS and not operation.settled:
        return None
    begun = performed(model, plan_state, operation)
    if begun is None:
        return None
    step = _STEPS.get(operation.kind)
    taken = _pair((step,), plan_state, begun) if step else None
    return _settled(model, operation, begun, settled=operation.settled, taken=taken)


def _pair(label: Label, before: PlanState, after: PlanState) -> Pair:
    return pair_of(label, before.state.controller, after.state.controller)


def _settled(
    model: AdversaryModel,
    operation: Operation | None,
    plan_state: PlanState,
    *,
    settled: bool,
    taken: Pair | None = None,
) -> Stage:
    """Return the stage after all steps; the producer writes during and after them."""
    kinds: dict[str, None] = {}
    pairs = {taken: None} if taken else {}
    probe, strays = None, False

    def rest(*, timers: bool) -> bool:
        nonlocal plan_state, strays
        before = plan_state
        for label, after in settle(model, plan_state, timers=timers):
            kinds[kind_of(label, plan_state, after)] = None
            pairs[_pair(label, plan_state, after)] = None
            what, *names = label
            strays |= what == "shrink" and not plan_state.is_in_force(OperationKind.LAG, names[1])
            plan_state = after
        return plan_state is not before

    for timers in (False, True) if settled else (False,):
        moved = rest(timers=timers)
        if timers and not moved and probe is not None:
            break
        wrote = produce(model, plan_state)
        probe = None
        if wrote is not None:
            label, after = wrote
            pairs[_pair(label, plan_state, after)] = None
            _, *names = label
            probe, plan_state = names[1], after
            rest(timers=False)
    return Stage(
        operation=operation,
        plan_state=plan_state,
        kinds=tuple(kinds),
        pairs=tuple(pairs),
        probe=probe,
        unheard=next(fetches(model, plan_state, waited=True), None) is not None,
        strays=strays,
    )


def kind_of(label: Label, before: PlanState, after: PlanState) -> str:
    """Return the kind of a step: its name, and the change of leader and ISR."""
    old, new = before.state.controller, after.state.controller
    changes = []
    if new.leader != old.leader:
        if new.leader < 0:
            changes.append("no leader")
        else:
            bit = 1 << new.leader
            where = "ISR" if old.isr & bit else "ELR" if old.elr & bit else "outside"
            changes.append(f"leader from the {where}")
    if new.isr != old.isr:
        changes.append("ISR grows" if new.isr & ~old.isr else "ISR shrinks")
    return f"{label[0]}: {', '.join(changes)}" if changes else label[0]


def _next(
    model: AdversaryModel,
    plan_state: PlanState,
    left: Allowance,
    patient: bool,
    holds: Sequence[OperationKind],
) -> Iterator[tuple[Operation, Allowance]]:
    """Yield the operations that may come next, and the allowance after each."""
    for kind, broker in sorted(left):
        rest = Counter(left)
        rest[kind, broker] -= 1
        for operation in _of_kind(model, plan_state, kind):
            for settled in (True,) if patient else (True, False):
                if broker in (ANY, operation.broker):
                    yield replace(operation, settled=settled), +rest
    leader = plan_state.state.controller.leader
    if leader >= 0:
        yield Operation(kind=OperationKind.WITHHOLD, broker=leader, settled=False), left
        if model.misses_epochs:
            for kind in (OperationKind.HOLD_METADATA, OperationKind.HOLD_ISR):
                yield Operation(kind=kind, broker=leader, settled=False), left
            for number in range(model.brokers):
                yield Operation(kind=OperationKind.HOLD_FETCHES, broker=number, settled=False), left
    for one in plan_state.in_force:
        ends = None if one.kind in PROCESS_STOPS else one.kind
        kind = OperationKind.JOIN if ends else OperationKind.START
        yield Operation(kind=kind, broker=one.broker, ends=ends), left
    for kind in holds if leader >= 0 else ():
        for settled in (True, False):
            yield Operation(kind=kind, broker=leader, settled=settled), left


def _of_kind(
    model: AdversaryModel, plan_state: PlanState, kind: OperationKind
) -> Iterator[Operation]:
    """Yield the operations of a kind, also some that are not possible."""
    if kind is not OperationKind.REASSIGN:
        yield from (Operation(kind=kind, broker=number) for number in range(model.brokers))
        return
    yield from (Operation(kind=kind, broker=to[0], to=to) for to in model.requests)
    now = plan_state.state.controller
    yield Operation(kind=OperationKind.CANCEL, broker=preferred(now))


#: The operation for each budget.
_PERTURBING = {
    "kills": OperationKind.KILL,
    "power_losses": OperationKind.LOSE_POWER,
    "clean_stops": OperationKind.STOP,
    "shrinks": OperationKind.LAG,
    "fencings": OperationKind.CUT_OFF,
    "leader_moves": OperationKind.ELECT,
    "reassignments": OperationKind.REASSIGN,
}


def allowance(model: AdversaryModel) -> Allowance:
    """Return the operations that a model's budgets allow, on any broker."""
    budgets, allowed = model.budgets, Counter[tuple[OperationKind, int]]()
    for perturbation, kind in _PERTURBING.items():
        if times := min(getattr(budgets, perturbation), budgets.perturbations):
            allowed[kind, ANY] = times
    return allowed


def used(operations: Sequence[Operation]) -> Allowance:
    """Return the allowance that operations use up."""
    kinds = (one.kind for one in operations if one.kind not in FREE)
    moves = (OperationKind.REASSIGN, OperationKind.CANCEL)
    return Counter((moves[0] if kind in moves else kind, ANY) for kind in kinds)
