"""What operators do to bring about the losses that the search finds, and what that leads to."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import pytest

from ackproof_model.adversary import AdversaryModel, Budgets, search
from ackproof_model.planning import (
    ModelContradictsItselfError,
    Operation,
    OperationKind,
    Plan,
    carried_out,
    covering_plans,
    kinds,
    permitted,
    plan,
    plan_state,
    realized,
    shortest_divergence,
    with_clean_stops,
)

B2 = AdversaryModel(kafka_version="4.3.1", acks="1", budgets=Budgets(kills=1))
B3 = AdversaryModel(kafka_version="4.3.1", acks="1", budgets=Budgets(fencings=1))
B4 = AdversaryModel(
    kafka_version="4.3.1", unclean_election=True, budgets=Budgets(kills=2, shrinks=1)
)
B5 = AdversaryModel(
    kafka_version="4.3.1", min_insync_replicas=1, budgets=Budgets(power_losses=1, shrinks=2)
)
B6 = AdversaryModel(kafka_version="3.9.1", budgets=Budgets(power_losses=1, shrinks=2))
B7 = AdversaryModel(kafka_version="4.3.1", budgets=Budgets(power_losses=1, kills=1, shrinks=1))
B7_BY_KILLS = replace(B7, budgets=Budgets(power_losses=1, kills=2))
CASES = {
    "B2": (B2, ["withhold 0", "kill 0"]),
    "B2 with ZooKeeper": (
        replace(B2, kafka_version="2.6.2"),
        ["withhold 0", "kill 0"],
    ),
    "B3": (B3, ["cut off 0"]),
    "B4": (B4, ["lag 1", "kill 0", "kill 2"]),
    "B5": (B5, ["lag 1", "lag 2", "lose power 0", "start 0"]),
    "B6": (B6, ["lag 1", "lag 2", "lose power 0", "start 0"]),
    "B7": (B7, ["lag 2", "kill 1", "lose power 0", "start 1", "start 0"]),
    "B7 by kills": (B7_BY_KILLS, ["kill 1", "kill 2", "lose power 0", "start 2", "start 0"]),
}


@cache
def found(model: AdversaryModel) -> Plan:
    made = realized(search(model))
    assert made is not None
    return made


def told(made: Plan) -> list[str]:
    return [f"{one.kind} {one.broker}" for one in made.operations]


@pytest.mark.parametrize("case", CASES)
def test_a_loss_that_the_search_finds_is_brought_about(case):
    model, operations = CASES[case]
    made = found(model)
    assert told(made) == operations
    assert made.lost


@pytest.mark.parametrize("model", [B5, B6, B7, B7_BY_KILLS])
def test_where_power_is_lost_clean_stops_lose_nothing(model):
    clean = with_clean_stops(found(model))
    assert clean is not None
    assert not clean.lost
    assert {one.kind for one in clean.operations} <= {
        OperationKind.LAG,
        OperationKind.STOP,
        OperationKind.START,
    }


@pytest.mark.parametrize("model", [B2, B4])
def test_what_is_lost_by_an_election_is_lost_with_clean_stops_too(model):
    clean = with_clean_stops(found(model))
    assert clean is not None
    assert clean.lost


def test_there_is_no_clean_version_where_no_process_ends():
    assert with_clean_stops(found(B3)) is None


@pytest.mark.parametrize(
    ("model", "fates"),
    [
        (B2, ["kept", "lost", "kept"]),
        (B3, ["kept", "lost"]),
        (B4, ["kept", "lost", "none", "none"]),
        (B6, ["lost", "lost", "none", "none", "none"]),
        (B7, ["lost", "lost", "none", "none", "none", "kept"]),
    ],
)
def test_each_stage_says_what_becomes_of_its_records(model, fates):
    made = found(model)
    assert [made.fate(stage) for stage in made.stages] == fates


def test_power_loss_takes_nothing_that_is_fsynced_with_each_record():
    flushed = replace(B7, flush_every_record=True)
    assert carried_out(flushed, found(B7).operations) is None


def test_a_controlled_shutdown_fsyncs_what_power_loss_then_leaves():
    stops = [
        Operation(kind=OperationKind.STOP, broker=0),
        Operation(kind=OperationKind.START, broker=0),
        Operation(kind=OperationKind.LOSE_POWER, broker=0),
    ]
    made = carried_out(B7, stops)
    assert made is not None
    logs = [stage.plan_state.state.brokers[0].log for stage in made.stages]
    assert logs[-1] == logs[1]  # what it held when it shut down
    assert logs[-1] != logs[2]  # what it wrote afterwards is gone


@pytest.mark.parametrize(
    "operations",
    [
        [Operation(kind=OperationKind.START, broker=0)],
        [Operation(kind=OperationKind.JOIN, broker=0, ends=OperationKind.LAG)],
        [
            Operation(kind=OperationKind.KILL, broker=0),
            Operation(kind=OperationKind.KILL, broker=0),
        ],
        [
            Operation(kind=OperationKind.LAG, broker=1),
            Operation(kind=OperationKind.WITHHOLD, broker=1),
        ],
        [
            Operation(kind=OperationKind.CUT_OFF, broker=1),
            Operation(kind=OperationKind.STOP, broker=1),
        ],
        [
            Operation(kind=OperationKind.CUT_OFF, broker=1),
            Operation(kind=OperationKind.KILL, broker=1),
            Operation(kind=OperationKind.START, broker=1),
        ],
        # Its session has not ended.
        [
            Operation(kind=OperationKind.KILL, broker=1, settled=False),
            Operation(kind=OperationKind.START, broker=1),
        ],
    ],
)
def test_what_cannot_be_done_is_no_plan(operations):
    assert carried_out(B7, operations) is None


def test_no_operator_brings_about_what_only_a_race_loses(monkeypatch):
    monkeypatch.setattr(plan, "MOST_OPERATIONS", 5)
    race = AdversaryModel(kafka_version="0.10.2.2", budgets=Budgets(clean_stops=2))
    answer = search(race)
    assert answer.lost
    assert realized(answer) is None


def test_followers_have_not_heard_that_the_last_record_is_committed():
    """Before 0.11 this loses it (B10), if a second leader is elected that is dead already."""
    old = AdversaryModel(kafka_version="0.10.2.2", budgets=Budgets(kills=2))
    made = found(old)
    assert [(one.kind, one.broker, one.settled) for one in made.operations] == [
        (OperationKind.KILL, 0, False),
        (OperationKind.KILL, 1, True),
    ]
    assert [made.fate(stage) for stage in made.stages] == ["some", "none", "none"]
    leader, *followers = made.stages[0].plan_state.state.brokers
    assert [len(leader.log), leader.hw] == [1, 1]
    assert [(len(one.log), one.hw) for one in followers] == [(1, 0)] * 2
    in_time = carried_out(old, [replace(one, settled=True) for one in made.operations])
    assert in_time is not None
    assert not in_time.lost


def test_followers_hear_of_the_high_watermark_once_nothing_is_written():
    old = AdversaryModel(kafka_version="0.10.2.2", budgets=Budgets(kills=1))
    made = carried_out(old, [Operation(kind=OperationKind.KILL, broker=2)])
    assert made is not None
    alone = replace(old, min_insync_replicas=3)
    waits = carried_out(alone, [Operation(kind=OperationKind.KILL, broker=2)])
    assert waits is not None
    last = made.stages[-1], waits.stages[-1]
    assert [stage.unheard for stage in last] == [True, False]
    followers = [stage.plan_state.state.brokers[1] for stage in last]
    assert [(len(one.log), one.hw) for one in followers] == [(3, 2), (2, 2)]


def test_replicas_in_sync_diverge_after_two_elections_until_followers_compare_epochs():
    """B11: the shortest schedule, in versions where a follower may keep what its leader lacks."""
    old = AdversaryModel(
        kafka_version="1.1.1",
        acks="1",
        replicas=2,
        min_insync_replicas=1,
        unclean_election=True,
        budgets=Budgets(kills=2),
    )
    made = shortest_divergence(old)
    assert made is not None
    assert told(made) == ["withhold 0", "kill 0", "kill 1", "start 0"]
    assert made.diverged
    mixed = Budgets(kills=2, power_losses=1, shrinks=2, in_all=2)
    within = shortest_divergence(replace(old, budgets=mixed))
    assert within is not None
    assert permitted(replace(old, budgets=mixed), within.operations)
    assert shortest_divergence(replace(old, budgets=replace(mixed, kills=1, in_all=1))) is None
    newer = replace(old, kafka_version="2.1.1")
    assert shortest_divergence(newer) is None
    later = carried_out(newer, made.operations)
    assert later is not None
    assert later.lost
    assert not later.diverged


@pytest.mark.slow
def test_if_possible_nothing_hangs_on_how_fast_an_operator_is():
    budgets = Budgets(kills=1, power_losses=1, clean_stops=1)
    made = found(AdversaryModel(kafka_version="4.3.1", budgets=budgets))
    assert all(one.settled for one in made.operations)


def test_a_cut_that_only_delays_makes_nobody_lag():
    # Before 3.5 two perturbations lose records; without them a third one, a lag, would be smuggled.
    budgets = Budgets(kills=1, power_losses=1)
    made = realized(search(AdversaryModel(kafka_version="2.6.2", budgets=budgets)))
    assert made is None or not any(stage.strays for stage in made.stages)
    withheld = [
        Operation(kind=OperationKind.KILL, broker=0),
        Operation(kind=OperationKind.WITHHOLD, broker=1, settled=False),
        Operation(kind=OperationKind.START, broker=0),
    ]
    smuggled = carried_out(B6, withheld)
    assert smuggled is not None
    assert [stage.strays for stage in smuggled.stages] == [False, False, False, True]


def test_a_follower_that_has_every_record_does_not_lag():
    lag = Operation(kind=OperationKind.LAG, broker=1)
    cut = plan_state.performed(B7, plan_state.initial_plan_state(B7), lag)
    assert not list(plan_state.settle(B7, cut, timers=True))
    _, written = plan_state.produce(replace(B7, budgets=Budgets(records=1)), cut)
    assert ("shrink", 0, 1) in [label for label, _ in plan_state.settle(B7, written, timers=True)]


@pytest.mark.parametrize("case", CASES)
def test_the_order_of_prompt_steps_does_not_matter(case, monkeypatch):
    """Prompt steps are taken in one order; any other order leads to the same state."""
    model = CASES[case][0]
    made = found(model)
    prompt, chance = plan_state._prompt, random.Random(7)

    def shuffled(*given):
        steps = list(prompt(*given))
        chance.shuffle(steps)
        # A replica is looked at for the ISR when it fetches, and what it fetches comes with that.
        asks = {"expand"}
        return iter(sorted(steps, key=lambda step: step[0][0] in asks))

    monkeypatch.setattr(plan_state, "_prompt", shuffled)
    for _ in range(20):
        again = carried_out(model, made.operations)
        assert again is not None
        assert again.lost == made.lost
        for ours, theirs in zip(made.stages, again.stages, strict=True):
            first, second = ours.plan_state.state, theirs.plan_state.state
            seen = [one.controller._replace(epoch=0) for one in (first, second)]
            assert seen[0] == seen[1]
            assert [b.log for b in first.brokers] == [b.log for b in second.brokers]
            assert first.writes.acked == second.writes.acked


@pytest.mark.slow
def test_where_nothing_can_be_lost_schedules_take_many_kinds_of_steps():
    safe = AdversaryModel(kafka_version="4.3.1", budgets=Budgets(kills=2, shrinks=1))
    assert search(safe).impossible
    suite = covering_plans(safe, most=50)
    assert len(suite) < 50
    assert suite
    assert not any(one.lost for one in suite)
    taken = [kinds(one) for one in suite]
    # Each adds something, and together they go as far as an election from the ELR.
    for number, own in enumerate(taken):
        assert own - frozenset().union(*taken[:number])
    assert "fence: leader from the ELR, ISR grows" in frozenset().union(*taken)


def test_broker_that_was_cut_off_and_killed_starts_when_it_reaches_the_controllers():
    alone = AdversaryModel(
        kafka_version="4.3.1",
        replicas=1,
        min_insync_replicas=1,
        budgets=Budgets(kills=1, fencings=1),
    )
    assert search(alone).impossible
    cut_off_and_killed = [
        Operation(kind=kind, broker=0) for kind in (OperationKind.CUT_OFF, OperationKind.KILL)
    ]
    made = carried_out(alone, cut_off_and_killed)
    assert made is not None
    assert made.lost == 0
    assert covering_plans(alone, most=3)


def test_a_suite_stays_within_the_budgets():
    either = Budgets(kills=1, clean_stops=1, in_all=1)
    safe = AdversaryModel(kafka_version="4.3.1", budgets=either)
    suite = covering_plans(safe, most=50)
    assert max(plan.used(one.operations).total() for one in suite) == 1
    assert all(permitted(safe, one.operations) for one in suite)


def test_a_suite_of_what_loses_is_refused():
    with pytest.raises(ModelContradictsItselfError, match="lose power"):
        covering_plans(B7, most=3)
