"""Where nothing can be lost: the schedules that take the most kinds of steps of the model.

Operations within the budgets are explored, each plan_state once, and then schedules are chosen one
after another, each the one that adds the most kinds of steps not yet taken (`plan.kind_of`). So a
suite shows real brokers every kind of step that the exploration reached.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice

from ackproof_model.adversary.bounds import PERTURBATIONS, AdversaryModel
from ackproof_model.planning.plan import (
    ANY,
    Plan,
    Stage,
    Wanted,
    explored,
    whole,
    writing,
)
from ackproof_model.planning.plan_state import HEALS, OperationKind

#: At most so many schedules are looked at, of so many operations.
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
    """An operator's schedule loses what the search says no adversary can."""


def kinds(plan: Plan) -> frozenset[str]:
    """Return the kinds of steps that a plan takes."""
    return frozenset(kind for stage in plan.stages for kind in stage.kinds)


def covering_plans(model: AdversaryModel, *, most: int) -> list[Plan]:
    """Return at most `most` schedules that together take the most kinds of steps.

    Raises ModelContradictsItselfError if one of them loses records.
    """
    budgets = model.budgets
    allowed: Wanted = Counter()
    for perturbation, kind in zip(PERTURBATIONS, _OPERATIONS, strict=True):
        if times := min(getattr(budgets, perturbation), budgets.perturbations):
            allowed[kind, ANY] = times
    model = writing(model)
    found: list[tuple[frozenset[str], tuple[Stage, ...]]] = []
    reached = explored(model, allowed, most=_MOST_OPERATIONS, patient=True)
    for stages in islice(reached, _MOST_SCHEDULES):
        if _perturbations(stages) > budgets.perturbations or not stages[-1].settled:
            continue
        plan = whole(model, stages)
        if plan.lost:
            raise ModelContradictsItselfError(
                f"nothing can be lost, says the search, and yet by {plan.operations}"
            )
        found.append((kinds(plan), stages))
    chosen: list[Plan] = []
    taken: frozenset[str] = frozenset()
    while len(chosen) < most and found:
        best, stages = max(found, key=lambda one: (len(one[0] - taken), -len(one[1])))
        if not best - taken:
            break
        taken |= best
        chosen.append(whole(model, stages))
    return chosen


def _perturbations(stages: tuple[Stage, ...]) -> int:
    free = (*HEALS, OperationKind.WITHHOLD)
    return sum(one.operation is not None and one.operation.kind not in free for one in stages)
