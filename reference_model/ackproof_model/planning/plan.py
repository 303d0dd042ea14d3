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

from ackproof_model.adversary.bounds import Budgets, Question
from ackproof_model.adversary.search import Answer
from ackproof_model.adversary.state import Label
from ackproof_model.adversary.successors import lost
from ackproof_model.planning.scene import (
    CUTS,
    ENDS,
    HEALS,
    Deed,
    Operation,
    Scene,
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

#: Which perturbation of the adversary's is which deed.
_DEEDS = {
    "kill": Deed.KILL,
    "lose power": Deed.LOSE_POWER,
    "stop": Deed.STOP,
    "shrink": Deed.LAG,
    "cut off": Deed.CUT_OFF,
}


#: Stands for a broker, whichever.
ANY = -1

#: How often each deed may be done, to a broker or to any.
Wanted = Counter[tuple[Deed, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What an operation leads to (None: the start); `kinds` are those of what happened by itself.

    `probe` is the record that was written when all had come to rest, None if nobody took one.
    `strays`: a follower left the ISR that no LAG holds, but a cut that should only have delayed it.
    """

    operation: Operation | None
    scene: Scene
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

    question: Question
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
        if stage.probe is None or not stage.scene.state.writes.acked >> stage.probe & 1:
            return "none"
        return "lost" if self.lost >> stage.probe & 1 else "kept"


def realized(answer: Answer) -> Plan | None:
    """Return the shortest operations that do what a trace's perturbations do, and lose records.

    If possible each waits until the one before has come to rest, which does not hang on how fast
    an operator is; and if possible they hit the trace's brokers, else any. None if there are none
    of `MOST_OPERATIONS` among the first thousands.
    """
    wanted: Wanted = Counter()
    for label, _ in answer.trace:
        what, *brokers = label
        if what in _DEEDS:
            wanted[_DEEDS[what], brokers[1] if what == "shrink" else brokers[0]] += 1
    anywhere: Wanted = Counter()
    for (deed, _), times in wanted.items():
        anywhere[deed, ANY] += times
    question = writing(answer.question)
    for patient in (True, False):
        for allowed in (wanted, anywhere):
            reached = explored(question, allowed, most=MOST_OPERATIONS, patient=patient)
            for stages in islice(reached, _MOST_SCHEDULES):
                last = stages[-1]
                if last.settled and lost(last.scene.state):
                    plan = whole(question, stages)
                    if plan.lost:
                        return plan
    return None


def explored(
    question: Question, allowed: Wanted, *, most: int, patient: bool
) -> Iterator[tuple[Stage, ...]]:
    """Yield every schedule of at most `most` operations to a new scene, the short ones first.

    Each deed of `allowed` at most as often as it says; what ends a deed, and a cut that keeps
    followers from fetching, as often as may be. `patient`: all but such a cut come to rest.
    """
    layer: list[tuple[tuple[Stage, ...], Wanted]] = [((_first(question),), allowed)]
    seen = set()
    for _ in range(most):
        following = []
        for stages, left in layer:
            for operation, remaining in _next(question, stages[-1].scene, left, patient):
                stage = _after(question, stages[-1].scene, operation)
                if stage is None or stage.strays:
                    continue
                key = (stage.scene, stage.settled, frozenset(remaining.items()))
                if key not in seen:
                    seen.add(key)
                    following.append(((*stages, stage), remaining))
                    yield following[-1][0]
        layer = following


def carried_out(question: Question, operations: Sequence[Operation]) -> Plan | None:
    """Return what operations lead to, None if they cannot be carried out."""
    question = writing(question)
    stages = [_first(question)]
    for operation in operations:
        stage = _after(question, stages[-1].scene, operation)
        if stage is None:
            return None
        stages.append(stage)
    return whole(question, stages)


def with_clean_stops(plan: Plan) -> Plan | None:
    """Return the same operations with every process shut down in a controlled way.

    None if that is no schedule, or if no process is ended.
    """
    if not any(one.deed in (Deed.KILL, Deed.LOSE_POWER) for one in plan.operations):
        return None
    clean = [replace(one, deed=Deed.STOP) if one.deed in ENDS else one for one in plan.operations]
    return carried_out(plan.question, clean)


def writing(question: Question) -> Question:
    """Return the question for producers that write on: as many records as can be told apart."""
    return replace(question, budgets=Budgets(records=_RECORDS))


def whole(question: Question, stages: Sequence[Stage]) -> Plan:
    """Return the plan of these stages, with all healed in the end, what began last first."""
    scene = stages[-1].scene
    for operation in reversed(scene.in_force):
        deed = Deed.START if operation.deed in ENDS else Deed.JOIN
        ends = operation.deed if deed is Deed.JOIN else None
        healed = done(question, scene, Operation(deed=deed, broker=operation.broker, ends=ends))
        if healed is not None:
            scene = _rest(question, healed)
    leader = scene.state.partition.controller.leader
    log = scene.state.replicas[leader].log if leader >= 0 else 0
    return Plan(question=question, stages=tuple(stages), lost=scene.state.writes.acked & ~log)


def _rest(question: Question, scene: Scene) -> Scene:
    for _, after in settle(question, scene, timers=True):
        scene = after
    return scene


def _first(question: Question) -> Stage:
    return _settled(question, None, opening(question), settled=True)


def _after(question: Question, scene: Scene, operation: Operation) -> Stage | None:
    """Return the stage that an operation leads to, None if it cannot be done now."""
    if operation.deed in HEALS and not operation.settled:
        return None
    begun = done(question, scene, operation)
    if begun is None:
        return None
    return _settled(question, operation, begun, settled=operation.settled)


def _settled(
    question: Question, operation: Operation | None, scene: Scene, *, settled: bool
) -> Stage:
    """Return a stage: producers write on while it comes to rest, and once more afterwards."""
    kinds: dict[str, None] = {}
    probe, strays = None, False

    def rest(*, timers: bool) -> bool:
        nonlocal scene, strays
        before = scene
        for label, after in settle(question, scene, timers=timers):
            kinds[kind_of(label, scene, after)] = None
            what, *names = label
            strays |= what == "shrink" and not scene.held(Deed.LAG, names[1])
            scene = after
        return scene is not before

    for timers in (False, True) if settled else (False,):
        moved = rest(timers=timers)
        if timers and not moved and probe is not None:
            break
        wrote = produce(question, scene)
        probe = None
        if wrote is not None:
            (_, *names), scene = wrote
            probe = names[1]
            rest(timers=False)
    return Stage(operation=operation, scene=scene, kinds=tuple(kinds), probe=probe, strays=strays)


def kind_of(label: Label, before: Scene, after: Scene) -> str:
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
    question: Question, scene: Scene, left: Wanted, patient: bool
) -> Iterator[tuple[Operation, Wanted]]:
    """Yield the operations that may come next, and what is allowed after each."""
    for deed, broker in sorted(left):
        rest = Counter(left)
        rest[deed, broker] -= 1
        for number in range(question.replicas) if broker == ANY else (broker,):
            for settled in (True,) if patient else (True, False):
                yield Operation(deed=deed, broker=number, settled=settled), +rest
    leader = scene.state.partition.controller.leader
    if leader >= 0:
        yield Operation(deed=Deed.WITHHOLD, broker=leader, settled=False), left
    for one in scene.in_force:
        if one.deed in CUTS:
            yield Operation(deed=Deed.JOIN, broker=one.broker, ends=one.deed), left
        else:
            yield Operation(deed=Deed.START, broker=one.broker), left
