"""Variations of schedules: some that are drawn, and mutations of one that is known.

All are possible on prompt brokers and stay within the budgets of the model. The same source of
chance gives the same schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from random import Random

from ackproof_model.adversary.state import AdversaryModel
from ackproof_model.planning.plan import (
    MOST_OPERATIONS,
    Plan,
    Stage,
    allowance,
    carried_out,
    first_stage,
    following,
    held_requests,
    used,
    with_records,
)
from ackproof_model.planning.plan_state import (
    CUTS,
    HEALS,
    HOLDS,
    PROCESS_STOPS,
    Operation,
    OperationKind,
)

Operations = tuple[Operation, ...]

#: How many mutations of a schedule are tried until one is possible.
_TRIES = 200
#: The most changes that one mutation makes.
_MOST_CHANGES = 3


def permitted(model: AdversaryModel, operations: Operations) -> Plan | None:
    """Return the plan of these operations, None if one is not possible or the budgets forbid it.

    A cut that should only delay a follower must not take it out of the ISR, and what is held must
    come.
    """
    if len(operations) > MOST_OPERATIONS:
        return None
    own = used(operations)
    if own - allowance(model) or own.total() > model.budgets.perturbations:
        return None
    plan = carried_out(model, operations)
    if plan is None or any(stage.strays for stage in plan.stages) or _idle(plan.stages):
        return None
    return plan if _can_be_cut(model, plan.stages) else None


def _can_be_cut(model: AdversaryModel, stages: Sequence[Stage]) -> bool:
    """Whether links are cut only where they do not lead through a proxy, which holds markers.

    Where leaders may miss epochs, a cut holds requests at that proxy.
    """
    kinds = {stage.operation.kind for stage in stages if stage.operation is not None}
    return model.misses_epochs or OperationKind.HOLD_MARKERS not in kinds or kinds.isdisjoint(CUTS)


def _idle(stages: Sequence[Stage]) -> bool:
    """Whether ISR requests are held in a stage, and none comes."""
    kinds = [stage.operation.kind for stage in stages if stage.operation is not None]
    return len(held_requests(stages)) < kinds.count(OperationKind.HOLD_ISR)


def drawn(model: AdversaryModel, chance: Random, holds: Sequence[OperationKind] = ()) -> Operations:
    """Return a schedule each of whose operations is drawn from those that are possible then.

    holds: those of CLIENT_HOLDS that may come.
    """
    records, allowed = with_records(model), allowance(model)
    stages, left = [first_stage(records)], allowed
    for _ in range(chance.randint(1, MOST_OPERATIONS)):
        choices = [
            (after, remaining)
            for after, remaining in following(records, stages[-1], left, patient=False, holds=holds)
            if allowed.total() - remaining.total() <= model.budgets.perturbations
            and _can_be_cut(model, (*stages, after))
        ]
        if not choices:
            break
        stage, left = chance.choice(choices)
        stages.append(stage)
    while _idle(stages):
        stages.pop()
    return tuple(stage.operation for stage in stages if stage.operation is not None)


def mutated(
    model: AdversaryModel,
    operations: Operations,
    chance: Random,
    holds: Sequence[OperationKind] = (),
) -> Operations | None:
    """Return a schedule that differs in a few places, None if no possible one was found.

    holds: those of CLIENT_HOLDS that may come.
    """
    mutations: tuple[_Mutation, ...] = (partial(_insert, holds=holds), *_MUTATIONS)
    for _ in range(_TRIES):
        changed: Operations = operations
        for _ in range(chance.randint(1, _MOST_CHANGES)):
            changed = chance.choice(mutations)(model, changed, chance)
        if changed != operations and permitted(model, changed) is not None:
            return changed
    return None


def smaller(model: AdversaryModel, operations: Operations) -> Iterator[Operations]:
    """Yield each schedule without one operation and what heals it, as far as it is possible."""
    without = dict.fromkeys(_without(operations, at) for at in range(len(operations)))
    yield from (each for each in without if permitted(model, each) is not None)


def _insert(
    model: AdversaryModel,
    operations: Operations,
    chance: Random,
    *,
    holds: Sequence[OperationKind] = (),
) -> Operations:
    own = HOLDS if model.misses_epochs else ()
    cuts = [*(cut for cut in CUTS if cut in own or cut not in HOLDS), *holds]
    kinds = [kind for kind, _ in sorted(allowance(model))]
    kinds += [OperationKind.CANCEL] if OperationKind.REASSIGN in kinds else []
    kind = chance.choice([*kinds, OperationKind.WITHHOLD, *own, *holds, *HEALS])
    settles = kind in HEALS or chance.random() < 0.5
    to = chance.choice(model.requests) if kind is OperationKind.REASSIGN else ()
    operation = Operation(
        kind=kind,
        broker=to[0] if to else chance.randrange(model.brokers),
        settled=settles,
        ends=chance.choice(cuts) if kind is OperationKind.JOIN else None,
        to=to,
    )
    at = chance.randint(0, len(operations))
    return (*operations[:at], operation, *operations[at:])


def _drop(_model: AdversaryModel, operations: Operations, chance: Random) -> Operations:
    return _without(operations, chance.randrange(len(operations))) if operations else operations


def _without(operations: Operations, at: int) -> Operations:
    """Return the operations without one, and without what heals it."""
    dropped = operations[at]
    later = list(operations[at + 1 :])
    heal = next((one for one in later if _heals(one, dropped)), None)
    if heal is not None:
        later.remove(heal)
    return (*operations[:at], *later)


def _heals(operation: Operation, begun: Operation) -> bool:
    if operation.broker != begun.broker:
        return False
    if operation.kind is OperationKind.START:
        return begun.kind in PROCESS_STOPS
    return operation.kind is OperationKind.JOIN and operation.ends is begun.kind


def _swap(_model: AdversaryModel, operations: Operations, chance: Random) -> Operations:
    if len(operations) < 2:
        return operations
    changed = list(operations)
    one, other = chance.sample(range(len(operations)), 2)
    changed[one], changed[other] = changed[other], changed[one]
    return tuple(changed)


def _retarget(model: AdversaryModel, operations: Operations, chance: Random) -> Operations:
    """Exchange two brokers from some operation on."""
    if not operations or model.brokers < 2:
        return operations
    one, other = chance.sample(range(model.brokers), 2)
    exchanged = {one: other, other: one}
    at = chance.randrange(len(operations))
    return (
        *operations[:at],
        *(
            replace(
                each,
                broker=exchanged.get(each.broker, each.broker),
                to=tuple(exchanged.get(number, number) for number in each.to),
            )
            for each in operations[at:]
        ),
    )


def _retime(_model: AdversaryModel, operations: Operations, chance: Random) -> Operations:
    """Let timers fire after an operation where they did not, or the other way round."""
    if not operations:
        return operations
    at = chance.randrange(len(operations))
    changed = replace(operations[at], settled=not operations[at].settled)
    return (*operations[:at], changed, *operations[at + 1 :])


_Mutation = Callable[[AdversaryModel, Operations, Random], Operations]

#: All but `_insert`.
_MUTATIONS: tuple[_Mutation, ...] = (_drop, _swap, _retarget, _retime)
