"""For a configuration that can lose nothing: schedules that take the most kinds of steps.

Operations within the budgets are explored, each plan state once. Then schedules are chosen one
after another, each time the one that adds the most new kinds of steps (`plan.kind_of`). So a suite
takes real brokers through every kind of step that the exploration reached.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice

from ackproof_model.adversary.bounds import PERTURBATIONS, AdversaryModel
from ackproof_model.planning.plan import (
    ANY,
    Allowance,
    Plan,
    Stage,
    completed,
    explored,
    with_records,
)
from ackproof_model.planning.plan_state import HEALS, OperationKind

#: At most so many schedules are examined, of so many operations.
_MOST_SCHEDULES = 3_000
_MOST_OPERATIONS = 7

_OPERATIONS = (
    OperationKind.KILL,
    OperationKind.LOSE_POWER,
    OperationKind.STOP,
    OperationKind.LAG,
    OperationKind.CUT_OFF,
)


class ModelContradictsItselfError(RuntimeError):
    """A schedule of operations loses records although the search says that no adversary can."""


def kinds(plan: Plan) -> frozenset[str]:
    return frozenset(kind for stage in plan.stages for kind in stage.kinds)


def covering_plans(model: AdversaryModel, *, most: int) -> list[Plan]:
    """Return at most `most` schedules that together take the most kinds of steps.

    Raises ModelContradictsItselfError if one of them loses records.
    """
    budgets = model.budgets
    allowed: Allowance = Counter()
    for perturbation, kind in zip(PERTURBATIONS, _OPERATIONS, strict=True):
        if times := min(getattr(budgets, perturbation), budgets.perturbations):
            allowed[kind, ANY] = times
    model = with_records(model)
    found: list[tuple[frozenset[str], tuple[Stage, ...]]] = []
    reached = explored(model, allowed, most=_MOST_OPERATIONS, patient=True)
    for stages in islice(reached, _MOST_SCHEDULES):
        if _perturbations(stages) > budgets.perturbations or not stages[-1].settled:
            continue
        plan = completed(model, stages)
        if plan.lost:
            raise ModelContradictsItselfError(
                f"the search finds no loss, but these operations lose records: {plan.operations}"
            )
        found.append((kinds(plan), stages))
    chosen: list[Plan] = []
    taken: frozenset[str] = frozenset()
    while len(chosen) < most and found:
        best, stages = max(found, key=lambda one: (len(one[0] - taken), -len(one[1])))
        if not best - taken:
            break
        taken |= best
        chosen.append(completed(model, stages))
    return chosen


def _perturbations(stages: tuple[Stage, ...]) -> int:
    free = (*HEALS, OperationKind.WITHHOLD)
    return sum(one.operation is not None and one.operation.kind not in free for one in stages)
