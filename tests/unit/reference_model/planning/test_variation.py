"""Drawn schedules and mutations: possible on prompt brokers, and within the budgets."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from ackproof_model.adversary import AdversaryModel, Budgets
from ackproof_model.planning import (
    CLIENT_HOLDS,
    Operation,
    OperationKind,
    Operations,
    carried_out,
    drawn,
    mutated,
    permitted,
    smaller,
    variation,
)
from unit.reference_model.planning.schedules import ELECTING

MODEL = AdversaryModel(
    kafka_version="4.3.1", budgets=Budgets(kills=1, shrinks=1, fencings=1, in_all=2)
)
KILL_AND_START = (
    Operation(kind=OperationKind.KILL, broker=0),
    Operation(kind=OperationKind.START, broker=0),
)


def words(operations: Operations) -> str:
    return ", ".join(f"{one.kind}{'' if one.settled else '!'} {one.broker}" for one in operations)


def test_drawn_schedules_are_permitted_and_repeatable() -> None:
    every = [drawn(MODEL, Random(seed)) for seed in range(40)]
    assert all(permitted(MODEL, each) for each in every)
    assert every == [drawn(MODEL, Random(seed)) for seed in range(40)]
    assert len(set(every)) > 30
    kinds = {one.kind for each in every for one in each}
    assert kinds >= {OperationKind.KILL, OperationKind.LAG, OperationKind.CUT_OFF}
    assert OperationKind.LOSE_POWER not in kinds


def test_mutations_are_permitted_and_repeatable() -> None:
    every = [mutated(MODEL, KILL_AND_START, Random(seed)) for seed in range(40)]
    assert None not in every
    assert KILL_AND_START not in every
    assert all(each is not None and permitted(MODEL, each) for each in every)
    assert every == [mutated(MODEL, KILL_AND_START, Random(seed)) for seed in range(40)]


@pytest.mark.parametrize(
    ("change", "example"),
    [
        (variation._insert, "kill 0, lag! 2, start 0"),
        (variation._drop, ""),
        (variation._drop, "kill 0"),
        (variation._swap, "start 0, kill 0"),
        (variation._retarget, "kill 2, start 2"),
        (variation._retarget, "kill 0, start 1"),
        (variation._retime, "kill! 0, start 0"),
    ],
)
def test_each_mutation_makes_its_change(change: variation._Mutation, example: str) -> None:
    made = Counter(words(change(MODEL, KILL_AND_START, Random(seed))) for seed in range(400))
    assert made[example]


def test_what_the_budgets_forbid_is_not_permitted() -> None:
    one, other = (Operation(kind=OperationKind.KILL, broker=number) for number in (0, 1))
    lag = Operation(kind=OperationKind.LAG, broker=2)
    cut_off = Operation(kind=OperationKind.CUT_OFF, broker=1)
    assert permitted(MODEL, (one, lag))
    assert not permitted(MODEL, (one, other)), "two kills"
    assert not permitted(MODEL, (one, lag, cut_off)), "three in all"
    assert not permitted(MODEL, (Operation(kind=OperationKind.LOSE_POWER, broker=0),))
    assert not permitted(MODEL, (*KILL_AND_START[1:], one)), "a start of what runs"


@pytest.mark.parametrize("kind", [OperationKind.LAG, OperationKind.CUT_OFF])
def test_a_dead_broker_is_not_cut_off(kind: OperationKind) -> None:
    kill, cut = KILL_AND_START[0], Operation(kind=kind, broker=0, settled=False)
    assert permitted(MODEL, (cut, kill))
    assert not permitted(MODEL, (kill, cut))


def test_a_cut_that_takes_a_follower_out_of_the_isr_is_not_permitted() -> None:
    withhold = Operation(kind=OperationKind.WITHHOLD, broker=0)
    assert not permitted(MODEL, (withhold,))
    assert permitted(MODEL, (Operation(kind=OperationKind.WITHHOLD, broker=0, settled=False),))


def held(kind: OperationKind) -> Operations:
    end = Operation(kind=OperationKind.JOIN, broker=0, ends=kind)
    return Operation(kind=kind, broker=0), end


def test_requests_of_transactions_are_held_only_if_there_are_any() -> None:
    without = [drawn(MODEL, Random(seed)) for seed in range(40)]
    every = [drawn(MODEL, Random(seed), CLIENT_HOLDS) for seed in range(60)]
    assert every == [drawn(MODEL, Random(seed), CLIENT_HOLDS) for seed in range(60)]
    assert all(permitted(MODEL, each) for each in every)
    assert {one.kind for each in without for one in each}.isdisjoint(CLIENT_HOLDS)
    assert {one.kind for each in every for one in each} >= {*CLIENT_HOLDS, OperationKind.LAG}
    changed = [
        {one.kind for one in mutated(MODEL, KILL_AND_START, Random(seed), holds) or ()}
        for holds in ((), CLIENT_HOLDS)
        for seed in range(200)
    ]
    assert set().union(*changed[:200]).isdisjoint(CLIENT_HOLDS)
    assert set().union(*changed[200:]) >= {*CLIENT_HOLDS}


@pytest.mark.parametrize("kind", CLIENT_HOLDS)
def test_what_is_held_ends_only_once_it_is_held(kind: OperationKind) -> None:
    hold, end = schedule = held(kind)
    for seed in range(60):
        changed = mutated(MODEL, schedule, Random(seed), CLIENT_HOLDS)
        assert changed is not None
        in_force = 0
        for one in changed:
            in_force += (one.kind is kind) - (one.ends is kind)
            assert in_force in (0, 1), words(changed)
    assert list(smaller(MODEL, schedule)) == [(), (hold,)], "it ends with the schedule, too"
    assert not permitted(MODEL, (end, hold))
    assert not permitted(MODEL, (hold, hold)), "one request is held at a time"
    assert not permitted(MODEL, (Operation(kind=kind, broker=1),)), "it does not lead"


@pytest.mark.parametrize("kind", CLIENT_HOLDS)
def test_a_held_request_of_a_transaction_is_no_step_and_costs_nothing(kind: OperationKind) -> None:
    hold, end = held(kind)
    alone = carried_out(MODEL, KILL_AND_START)
    beside = permitted(MODEL, (hold, *KILL_AND_START, end))
    assert alone is not None
    assert beside is not None
    assert (beside.pairs, beside.lost) == (alone.pairs, alone.lost)


def test_no_link_is_cut_that_leads_through_the_proxy() -> None:
    cut = Operation(kind=OperationKind.LAG, broker=2)
    writes, markers = map(held, CLIENT_HOLDS)
    assert permitted(MODEL, (*writes, cut))
    assert not permitted(MODEL, (*markers, cut))
    assert not permitted(MODEL, (cut, *markers))
    held_fetches = Operation(kind=OperationKind.HOLD_FETCHES, broker=2, settled=False)
    assert permitted(ELECTING, (*markers, held_fetches)), "there a cut holds requests, too"
