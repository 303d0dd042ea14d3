"""The search: its bounds and reductions change nothing, its traces tell the shortest story."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from ackproof_model import (
    FaultEvent,
    LeaderChanged,
    Likelihood,
    join,
    predict,
)
from ackproof_model.prediction.consumer import readable_records, unremovable, with_reads
from ackproof_model.prediction.model import Model
from ackproof_model.prediction.producer import step_down
from ackproof_model.prediction.reduction import (
    alone,
    awaits_heals_only,
    ends_small,
    has_final_leader,
    old_leaders,
    without_past_records,
)
from ackproof_model.prediction.search import SEARCHED, explore
from ackproof_model.prediction.transitions import (
    cluster_moves,
    exits,
    producer_steps,
    requests,
)
from ackproof_model.replication.state import initial
from unit.reference_model.schedules import (
    ACKED,
    CUT,
    DEMO,
    FOLLOWERS,
    KILL,
    KILL_FOLLOWERS,
    KILL_LEADER,
    LEADER,
    MORE_ACKED,
    POWER_LOSS,
    REPLICATION_CUT,
    RESTART_LEADER,
    SHUTDOWN,
    ZOMBIE,
    injection,
    kill,
)

WAYS = [{"acks": "0"}, {"acks": "1"}, {}, {"idempotence": True}, {"retries": 1}]
SCHEDULES = [(), KILL_LEADER, KILL_FOLLOWERS, RESTART_LEADER]


def seen(model):
    found = explore(model, max_states=400_000)
    assert found.complete
    assert found.stuck == 0
    assert found.final > 0
    return {name: (found.having[name] > 0, found.having[name] == found.final) for name in SEARCHED}


@pytest.mark.parametrize("settings", WAYS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_leaving_out_what_cannot_matter_changes_nothing(configure, settings, schedule):
    settings = settings | {"replication_factor": 2}
    model = Model(configure(**settings), schedule)
    assert seen(model) == seen(Model(configure(**settings), schedule, reduction=False))


def test_a_search_may_start_with_another_isr(configure):
    settings = configure(replication_factor=2, min_insync_replicas=1)
    fault = injection("power_loss", POWER_LOSS, targets=LEADER, when=(ACKED,))
    whole = Model(settings, (fault,))
    assert seen(whole)["lost"] == (False, False)
    controller, (leader, follower) = initial(2)
    alone_in_isr = controller._replace(isr=1), (leader._replace(isr=1), follower)
    assert seen(replace(whole, start=alone_in_isr))["lost"] == (True, False)


def steps_anew(model, state):
    """Return every step from a state, without the memory of `Stepping`."""
    if awaits_heals_only(model, state):
        return []
    found = list(producer_steps(model, state))
    for label, number, after, timer in cluster_moves(model, state):
        if label is None:
            found += requests(model, state, number)
        elif after is None:
            found += exits(model, state, number)
        else:
            there = after.with_client(state.client)
            found.append((label, step_down(model, there, number) if number >= 0 else there, timer))
    return [(label, stands_for(model, after), timer) for label, after, timer in found]


def stands_for(model, state):
    """Return the state that stands for another one in the search, after consumers have read."""
    records = readable_records(state), unremovable(model, state)
    client = with_reads(model, state.client, *records)
    client = without_past_records(model, client, model.sent_before[state.run.phase])
    state = state.with_client(client)
    if not (model.reduces(state) and has_final_leader(model, state)):
        return state
    old = old_leaders(state)
    small = ends_small(model, state, old)
    return state if small is None else alone(model, state, old, small=small)


@pytest.mark.parametrize(
    ("settings", "schedule"),
    [
        ({"acks": "1"}, ZOMBIE),
        ({}, ZOMBIE),
        ({"idempotence": True}, KILL_LEADER),
        ({"retries": 1}, RESTART_LEADER),
        ({"kafka_version": "2.6.2", "unclean_leader_election": True}, (CUT, kill())),
        ({}, (injection("stop", SHUTDOWN, targets=LEADER, when=(ACKED,), heal_or_after=5.0),)),
    ],
)
def test_remembered_steps_are_those_of_the_rules(configure, settings, schedule):
    model = Model(configure(**settings), schedule)
    found = explore(model, max_states=6_000)
    for number in range(0, found.states, 7):
        remembered = [
            (label, found.state(after), timer)
            for label, after, timer in found.stepping.steps(number)
        ]
        assert remembered == steps_anew(model, found.state(number))


@pytest.mark.parametrize("settings", WAYS)
@pytest.mark.parametrize("schedule", [*SCHEDULES, DEMO])
def test_more_records_change_nothing(configure, settings, schedule):
    settings = settings | {"replication_factor": 2}
    few = Model(configure(**settings), schedule)
    assert seen(few) == seen(Model(configure(**settings), schedule, more_records=1))


def replica(*numbers):
    return frozenset(numbers)


def test_what_is_due_is_healed_at_once_and_in_order(configure):
    # Both kills are to be healed once the last fault has begun, which itself lasts for a second.
    due = {"heal_when": (FaultEvent(fault=2, event="began"),), "heal_or_after": None}
    schedule = (
        kill(replica(0), when=(ACKED,), **due),
        kill(replica(1), when=(), **due),
        injection("none", heal_or_after=1.0),
    )
    settings = {"replication_factor": 2, "min_insync_replicas": 1}
    ordered, whole = (
        explore(Model(configure(**settings), schedule, ordered=one), max_states=100_000)
        for one in (True, False)
    )
    assert ordered.states < whole.states
    healed = {ordered.state(n).run.healed for n in range(ordered.states)}
    assert healed == {0, 1, 3, 7}
    assert healed < {whole.state(n).run.healed for n in range(whole.states)}
    assert ordered.having.keys() == whole.having.keys()
    for name in SEARCHED:
        assert (ordered.having[name] > 0) == (whole.having[name] > 0)


def drawn(seed, count):
    """Return faults on one of two brokers each, and a last one without effects, at random."""
    chance = random.Random(seed)
    faults = []
    for number in range(count):
        heals: list[dict[str, Any]] = [
            {"heal_when": (FaultEvent(fault=count, event="began"),), "heal_or_after": None},
            {"heal_when": (LeaderChanged(),), "heal_or_after": 20.0},
            {"heal_when": (), "heal_or_after": 5.0},
        ]
        begins: list[dict[str, Any]] = [
            {"when": (), "or_after": None},
            {"when": (ACKED if number == 0 else MORE_ACKED,), "or_after": 5.0},
        ]
        effect = chance.choice([KILL, KILL, POWER_LOSS, REPLICATION_CUT])
        target = replica(chance.randrange(2))
        settings = {**chance.choice(heals), **chance.choice(begins)}
        faults.append(injection("drawn", effect, targets=target, **settings))
    return (*faults, injection("none", heal_or_after=1.0))


@pytest.mark.parametrize(("seed", "count"), [*((seed, 1) for seed in range(18)), (0, 2), (4, 2)])
def test_what_is_left_out_of_drawn_schedules_changes_no_answer(configure, seed, count):
    settings = {
        "acks": ("0", "1", "all")[seed % 3],
        "replication_factor": 2,
        "min_insync_replicas": 1,
    }
    searched, unordered, whole = (
        explore(Model(configure(**settings), drawn(seed, count), **options), max_states=60_000)
        for options in ({}, {"ordered": False}, {"reduction": False})
    )
    assert searched.complete
    assert unordered.complete
    assert whole.complete
    assert searched.final
    assert searched.states <= unordered.states
    assert searched.states < whole.states
    for name in SEARCHED:
        assert (searched.having[name] > 0) == (whole.having[name] > 0)
        assert (searched.having[name] == searched.final) == (whole.having[name] == whole.final)
        # Without an order the model may do more than the runner of a schedule does.
        assert searched.having[name] == 0 or unordered.having[name] > 0


def test_a_budget_that_runs_out_excludes_nothing(configure):
    prediction = predict(configure(acks="1"), DEMO, max_states=200)
    assert not prediction.complete
    assert prediction.states == 200
    assert {prediction.likelihood[name] for name in SEARCHED} == {Likelihood.POSSIBLE}
    assert "search stopped after" in prediction.reasons["lost"]
    assert prediction.method.startswith("Incomplete search")


def test_the_trace_is_the_shortest_story_to_a_loss(configure):
    trace = predict(configure(acks="1"), DEMO).trace
    told = [sentence.split(":")[0].split(" (")[0] for sentence in trace]
    assert told == [
        "Fault 1",
        "The producer sends record 2 to A.",
        "A appends record 2 to its log.",
        "A acks record 2.",
        "Fault 2",
        "The controller fences A",
        "B learns that it leads.",
        "A is started again.",
        "The schedule has ended. The other brokers can fetch from A again.",
        "The final log is that of B. Acked and lost",
    ]
    assert "A held it and truncates it when following B" in trace[-1]


def test_no_loss_has_no_trace(configure):
    prediction = predict(configure(idempotence=True), DEMO)
    assert prediction.trace == ()
    assert "no way leads" in prediction.reasons["lost"]
    assert prediction.states > 400


def test_a_fault_that_can_never_begin_ends_the_run(configure):
    # Everybody is down, so there is no leader to hit, and none comes back by itself.
    schedule = (
        injection("kill", KILL, targets=CUT.targets | FOLLOWERS, heal_when=(LeaderChanged(),)),
        kill(when=(), or_after=5.0),
    )
    prediction = predict(configure(replication_factor=2), schedule)
    assert prediction.complete
    assert prediction.likelihood["lost"] == Likelihood.IMPOSSIBLE


def test_joining_takes_the_worst_of_all_partitions(configure):
    sure = predict(configure(acks="1"), DEMO)
    maybe = predict(configure(acks="1"), KILL_LEADER)
    never = predict(configure(idempotence=True), DEMO)
    assert join([never, maybe]).likelihood["lost"] == Likelihood.POSSIBLE
    assert join([never, maybe]).trace == maybe.trace
    joined = join([never, sure, maybe])
    assert joined.likelihood["lost"] == Likelihood.CERTAIN
    assert joined.trace == sure.trace
    assert joined.reasons["lost"] == sure.reasons["lost"]
    assert joined.states == sure.states + maybe.states + never.states
    assert not join([never, predict(configure(), DEMO, max_states=10)]).complete
    with pytest.raises(ValueError, match="at least one"):
        join([])
