"""Proposes the next schedule of an exploration, from the results that are stored.

The schedule is a function of the seed, the number of the run and these results, so that a stored
exploration can be followed again.

What was found is examined before anything else (`examined`). Then come the planner's schedules that
break a promise of Kafka, and those that hold a request of a transaction. Otherwise it aims at the
pairs that are missing: the planner's schedule that passes through the most of them for its length
comes first. A schedule that has run and did not pass through them comes again only as long as it
has many; one whose run does not count comes once. Once none is left it mutates the schedule of a
run that passed through new pairs, as a fuzzer does: the more pairs were new, the more often. Other
strategies are there to be compared with this one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from random import Random

from ackproof.exploration.examined import examination
from ackproof.exploration.guarantee import breaks
from ackproof.exploration.results import NOT_RUN, Proposal, Results, Schedule, certain_pairs
from ackproof_model.adversary import AdversaryModel
from ackproof_model.coverage import Pair
from ackproof_model.planning import (
    Operation,
    OperationKind,
    Operations,
    Plan,
    carried_out,
    drawn,
    mutated,
)

#: How many acked records a schedule may wait for. Few leave less time for steps without a timer.
RECORDS = (5, 20, 60)

#: The share of the schedules that are mutated although some could be aimed.
_MUTATED = 0.2
#: A schedule that comes first has so many tries: brokers may need some luck.
_FIRST_TRIES = 3
#: A run without operations takes as long as this many.
_FIXED = 2
#: How often a mutation of another parent is tried, so that no schedule runs twice.
_TRIES = 20


class Strategy(StrEnum):
    """Where schedules come from.

    DIRECTED: as described above. BLIND: the same without the schedules that break a promise of
    Kafka or hold a request. DRAWN: each is drawn, and no finding is examined.
    """

    DIRECTED = "directed"
    BLIND = "blind"
    DRAWN = "drawn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """The planner's schedules within the budgets of a model, and the pairs each passes through.

    breaking: those that break a promise of Kafka, by the model. holds: the operations that hold
    requests of transactions, if there are any. holding: for each a schedule that only does this, to
    the first leader.
    """

    model: AdversaryModel
    pairs: Mapping[Operations, frozenset[Pair]]
    breaking: tuple[Operations, ...] = ()
    holds: tuple[OperationKind, ...] = ()
    holding: tuple[Operations, ...] = ()
    strategy: Strategy = Strategy.DIRECTED

    @classmethod
    def of(
        cls,
        model: AdversaryModel,
        schedules: Sequence[Operations],
        holds: Sequence[OperationKind] = (),
    ) -> Ways:
        plans = {each: plan for each in schedules if (plan := carried_out(model, each)) is not None}
        pairs = {each: plan.pairs for each, plan in plans.items()}
        breaking = (each for each, plan in plans.items() if breaks(plan))
        return cls(
            model=model,
            pairs=pairs,
            breaking=tuple(sorted(breaking, key=len)),
            holds=tuple(holds),
            holding=tuple((Operation(kind=hold, broker=0),) for hold in holds),
        )

    def by(self, strategy: Strategy) -> Ways:
        """Return the ways that a strategy uses."""
        if strategy is Strategy.DIRECTED:
            return self
        kept = self.pairs.keys() - self.breaking if strategy is Strategy.BLIND else ()
        pairs = {each: self.pairs[each] for each in self.pairs if each in kept}
        return replace(self, pairs=pairs, breaking=(), holding=(), strategy=strategy)

    def through(self, operations: Operations) -> frozenset[Pair]:
        """Return the pairs that a schedule passes through by the model."""
        known = self.pairs.get(operations)
        return _through(self.model, operations) if known is None else known

    def plans_to(self, wanted: Collection[Pair]) -> dict[Pair, Plan]:
        """Return the plan of the shortest of these schedules through each pair."""
        plans: dict[Pair, Plan] = {}
        for operations in sorted(self.pairs, key=len):
            if through := self.pairs[operations].intersection(wanted) - plans.keys():
                plan = carried_out(self.model, operations)
                assert plan is not None
                plans |= dict.fromkeys(through, plan)
        return plans


@cache
def _through(model: AdversaryModel, operations: Operations) -> frozenset[Pair]:
    """Return the pairs of a schedule; each proposal asks for those of all stored ones."""
    plan = carried_out(model, operations)
    return frozenset() if plan is None else plan.pairs


def next_schedule(
    seed: int, number: int, results: Results, *, begun: Sequence[Schedule], ways: Ways
) -> Proposal:
    """Return the schedule of a run, and where it comes from.

    number: the runs before it with this seed. begun: the schedules that run meanwhile.
    """
    chance = Random(f"explore {seed} {number}")  # noqa: S311 - repeatable, not secret
    if ways.strategy is Strategy.DRAWN:
        return _drawn(ways, chance)
    if examines := examination(ways.model, results, begun):
        return examines
    before = [*(one.proposal.schedule for one in results.values()), *begun]
    tried = Counter(one.operations for one in before)
    first = (*ways.breaking, *ways.holding)
    least = min(first, key=lambda each: tried[each], default=None)
    if least is not None and tried[least] < _FIRST_TRIES:
        schedule = Schedule(operations=least, records=chance.choice(RECORDS[1:]))
        return Proposal(schedule=schedule, origin="aimed")
    seen, parents = _passed(results, ways)
    seen = seen.union(*(ways.through(one.operations) for one in begun))
    aims = {
        each: new
        for each, through in ways.pairs.items()
        if (new := len(through - seen)) and new >= (1 + tried[each]) ** 2
    }
    if aims and (not parents or chance.random() >= _MUTATED):
        return _aim(aims, chance)
    return _mutation(ways, results, parents, frozenset(before), chance)


def _aim(new_pairs: Mapping[Operations, int], chance: Random) -> Proposal:
    """Return the schedule with the most new pairs for its length, as each operation takes time."""
    worth = {each: new / (_FIXED + len(each)) for each, new in new_pairs.items()}
    best = [each for each, one in worth.items() if one == max(worth.values())]
    schedule = Schedule(operations=chance.choice(best), records=chance.choice(RECORDS[1:]))
    return Proposal(schedule=schedule, origin="aimed")


def _passed(results: Results, ways: Ways) -> tuple[frozenset[Pair], dict[str, int]]:
    """Return the pairs that runs passed through, and how many were new in which result.

    A run that does not count stands for its schedule: nothing tells which pairs it missed, and with
    ZooKeeper no run counts.
    """
    seen, new = certain_pairs(results), dict[str, int]()
    for name, one in sorted(results.items()):
        planned = frozenset[Pair]()
        if one.not_counted and one.verdict != NOT_RUN:
            planned = ways.through(one.proposal.schedule.operations) - seen
        if number := one.new or len(planned):
            new[name] = number
        seen |= planned
    return seen, new


def _mutation(
    ways: Ways,
    results: Results,
    parents: Mapping[str, int],
    before: frozenset[Schedule],
    chance: Random,
) -> Proposal:
    """Return a change of a parent's schedule that has not run, else a schedule that is drawn."""
    for _ in range(_TRIES if parents else 0):
        (parent,) = chance.choices(list(parents), list(parents.values()))
        changed = results[parent].proposal.schedule.operations
        operations = mutated(ways.model, changed, chance, ways.holds)
        if operations is None:
            continue
        schedule = Schedule(operations=operations, records=chance.choice(RECORDS))
        if schedule not in before:
            return Proposal(schedule=schedule, origin="mutated", parent=parent)
    return _drawn(ways, chance)


def _drawn(ways: Ways, chance: Random) -> Proposal:
    operations = drawn(ways.model, chance, ways.holds)
    schedule = Schedule(operations=operations, records=chance.choice(RECORDS))
    return Proposal(schedule=schedule, origin="drawn")
