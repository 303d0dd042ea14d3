"""Schedules for a configuration that cannot lose records: together they have many kinds of steps.

`covering_plans` repeatedly chooses the schedule that adds the most new kinds (`plan.kind_of`).
"""

from __future__ import annotations

from itertools import islice

from ackproof_model.adversary.state import AdversaryModel
from ackproof_model.planning.plan import (
    Plan,
    Stage,
    allowance,
    completed,
    explored,
    with_records,
)

#: The most schedules that are examined, and their longest number of operations.
_MOST = 3_000
_LONGEST = 7


class ModelContradictsItselfError(RuntimeError):
    """A schedule of operations loses records although the search says that no adversary can."""


def kinds(plan: Plan) -> frozenset[str]:
    return frozenset(kind for stage in plan.stages for kind in stage.kinds)


def covering_plans(model: AdversaryModel, *, most: int) -> list[Plan]:
    """Return at most `most` schedules that together have the most kinds of steps.

    Raises ModelContradictsItselfError if one of them loses records.
    """
    allowed, within = allowance(model), model.budgets.perturbations
    model = with_records(model)
    found: list[tuple[frozenset[str], tuple[Stage, ...]]] = []
    reached = explored(model, [allowed], most=_LONGEST, patient=True, within=within)
    for stages in islice(reached, _MOST):
        if not stages[-1].settled:
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
