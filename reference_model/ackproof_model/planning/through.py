"""The shortest schedules of operations that pass through pairs of steps and shapes.

The adversary may delay any step, so that it passes through more pairs than operations on prompt
brokers do: a pair without a schedule is not impossible.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping

from ackproof_model.adversary.state import AdversaryModel
from ackproof_model.coverage.pairs import Pair
from ackproof_model.planning.plan import (
    MOST_OPERATIONS,
    Allowance,
    Plan,
    Stage,
    allowance,
    completed,
    first_stage,
    following,
    with_records,
)

#: The default limit of operations that are examined.
MOST_EXAMINED = 5_000


def plans_to(
    model: AdversaryModel, wanted: Collection[Pair], *, most: int = MOST_EXAMINED
) -> Mapping[Pair, Plan]:
    """Return the shortest schedule through each pair for which one is found.

    The operations are those of the model's budgets. most: how many operations are tried in all,
    each after a schedule that led to a new state.
    """
    missing, found = set(wanted), dict[Pair, Plan]()
    records = with_records(model)
    for number, stages in enumerate(_schedules(model)):
        passed = missing.intersection(stages[-1].pairs)
        if passed:
            plan = completed(records, stages)
            found.update(dict.fromkeys(passed, plan))
            missing -= passed
        if not missing or number >= most:
            break
    return found


def _schedules(model: AdversaryModel) -> Iterator[tuple[Stage, ...]]:
    """Yield schedules within the budgets, the short ones first.

    Each way to a known plan state is yielded once more, as its last steps may have other shapes,
    but not continued.
    """
    budgets, allowed = model.budgets, allowance(model)
    records = with_records(model)
    start = first_stage(records)
    queue = deque[tuple[tuple[Stage, ...], Allowance]]([((start,), allowed)])
    known = {_key(start, allowed)}
    yield (start,)
    while queue:
        stages, left = queue.popleft()
        for after, remaining in following(records, stages[-1], left, patient=False):
            if allowed.total() - remaining.total() > budgets.perturbations:
                continue
            longer = (*stages, after)
            yield longer
            key = _key(after, remaining)
            if key not in known and len(longer) <= MOST_OPERATIONS:
                known.add(key)
                queue.append((longer, remaining))


def _key(stage: Stage, left: Allowance) -> object:
    return stage.plan_state, stage.settled, frozenset(left.items())
