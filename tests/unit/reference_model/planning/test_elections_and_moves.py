"""Schedules with planned elections, moves of replicas, and requests that are held."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from ackproof_model.adversary import AdversaryModel, Budgets, search, successors
from ackproof_model.planning import (
    Operation,
    Operations,
    carried_out,
    drawn,
    held_requests,
    permitted,
    plans_to,
    realized,
    variation,
)
from ackproof_model.replication.state import NOBODY
from unit.reference_model.planning.schedules import (
    ELECTING,
    LATE,
    MISSED_EPOCH,
    MOVING,
    REJOINED,
    REJOINING,
    REMOVED,
    K,
    at_once,
    in_time,
    move,
)


def lost(model: AdversaryModel, operations: Operations) -> int:
    plan = permitted(model, operations)
    assert plan is not None
    return plan.lost


def words(operations: Operations) -> list[str]:
    return [f"{one.kind} {one.broker}" for one in operations]


def test_a_leader_that_misses_an_epoch_loses_a_record_and_not_with_metadata_in_time() -> None:
    assert lost(ELECTING, MISSED_EPOCH) == 0b110
    assert lost(ELECTING, in_time(MISSED_EPOCH)) == 0
    assert lost(ELECTING, MISSED_EPOCH[:-1]) == 0, "the leader lives"


@pytest.mark.parametrize("version", ["4.3.1", "4.4.0"])
def test_a_removed_replica_that_is_elected_loses_every_record(version: str) -> None:
    assert lost(replace(MOVING, kafka_version=version), REMOVED) == 0b111
    copied = (*REMOVED[:3], move(0, 1, 2), Operation(kind=K.KILL, broker=3))
    assert lost(replace(MOVING, kafka_version=version), copied) == 0


def test_a_partition_without_a_leader_has_lost_nothing() -> None:
    """Broker 0 alone is eligible, and not assigned any more."""
    unclean = (Operation(kind=K.KILL, broker=2), Operation(kind=K.START, broker=2))
    plan = carried_out(MOVING, (*REMOVED[:2], *unclean, REMOVED[2], replace(unclean[0], broker=3)))
    assert plan is not None
    state = plan.stages[-1].plan_state.state
    assert state.controller.leader == NOBODY
    assert state.writes.acked
    assert (successors.lost(state), plan.lost) == (0, 0)


@pytest.mark.parametrize(("version", "elr"), [("4.1.2", True), ("4.4.0", False)])
def test_before_4_3_and_without_elr_the_same_moves_lose_nothing(version: str, elr: bool) -> None:
    model = replace(MOVING, kafka_version=version, elr_enabled=elr)
    assert lost(model, REMOVED) == 0


def test_the_planner_finds_the_schedule_of_a_missed_epoch() -> None:
    plan = realized(search(ELECTING))
    assert plan is not None
    assert plan.lost
    assert words(plan.operations) == words(MISSED_EPOCH)
    late = replace(ELECTING, misses_epochs=False)
    assert realized(search(late)) is None


def test_a_replica_joins_for_what_it_had_before_it_lost_its_log() -> None:
    assert lost(REJOINING, REJOINED) == 0b11111
    assert lost(REJOINING, REJOINED[:-1]) == 0, "it does not lead"
    prompt = tuple(one for one in REJOINED if K.HOLD_ISR not in (one.kind, one.ends))
    assert lost(REJOINING, prompt[:-1]) == 0
    assert carried_out(REJOINING, prompt) is None, "it joined before, and is out of the ISR again"
    fenced = replace(REJOINING, kafka_version="3.5.1")
    assert carried_out(fenced, REJOINED[:-1])
    assert carried_out(fenced, REJOINED) is None, "it is not in the ISR (KIP-903)"


def test_the_planner_finds_the_schedule_of_a_stale_rejoin() -> None:
    outside = replace(REJOINING, budgets=replace(REJOINING.budgets, outside_isr=True))
    plan = realized(search(outside))
    assert plan is not None
    assert plan.lost
    assert words(plan.operations) == words(REJOINED)


def test_a_request_for_another_isr_is_held_until_the_hold_ends() -> None:
    plan = carried_out(REJOINING, REJOINED)
    assert plan is not None
    assert held_requests(plan.stages) == {2: 3}
    pending = [stage.plan_state.state.brokers[0].pending for stage in plan.stages]
    assert pending == [0, 0, 0, *[0b111] * 4, 0, 0]
    now = plan.stages[-2].plan_state.state
    assert (now.controller.isr, now.brokers[1].log) == (0b111, ())


def test_requests_for_another_isr_are_held_at_a_leader_without_a_member_and_must_come() -> None:
    kill, hold, start = REJOINED[:3]
    assert not carried_out(REJOINING, (hold,)), "all are in the ISR"
    assert not carried_out(REJOINING, (kill, replace(hold, broker=2))), "it does not lead"
    assert not carried_out(replace(REJOINING, misses_epochs=False), (kill, hold))
    assert carried_out(REJOINING, (kill, hold))
    assert not permitted(REJOINING, (kill, hold)), "none comes"
    assert permitted(REJOINING, (kill, hold, start))
    assert not permitted(REJOINING, (*REJOINED[:3], *REJOINED[6:7], REJOINED[3], hold)), "the 2nd"
    early = (kill, hold, REJOINED[6], hold, start)
    assert not permitted(REJOINING, early), "the first one ends before"
    both = (kill, hold, start, replace(kill, broker=0), replace(start, broker=0))
    assert carried_out(REJOINING, both), "its sessions are not held"
    every = [drawn(REJOINING, Random(seed)) for seed in range(120)]
    assert all(permitted(REJOINING, each) for each in every)
    assert any(K.HOLD_ISR in {one.kind for one in each} for each in every)


@pytest.mark.slow
def test_the_planner_finds_the_schedule_of_a_removed_replica() -> None:
    plan = realized(search(MOVING))
    assert plan is not None
    assert plan.lost
    kinds = Counter(one.kind for one in plan.operations)
    assert kinds - Counter([K.WITHHOLD]) == {K.LAG: 2, K.REASSIGN: 2, K.KILL: 1}


@pytest.mark.slow
def test_schedules_to_pairs_and_drawn_ones_have_elections_moves_and_holds() -> None:
    every = [drawn(ELECTING, Random(seed)) for seed in range(40)]
    assert all(permitted(ELECTING, each) for each in every)
    elected = {one.kind for each in every for one in each}
    assert elected >= {K.ELECT, K.HOLD_FETCHES, K.HOLD_METADATA}
    moving = replace(MOVING, budgets=Budgets(reassignments=2))
    moved = {one.kind for seed in range(40) for one in drawn(moving, Random(seed))}
    assert moved >= {K.REASSIGN, K.CANCEL}
    without = replace(ELECTING, misses_epochs=False, budgets=Budgets(kills=2))
    kinds = {one.kind for seed in range(40) for one in drawn(without, Random(seed))}
    assert kinds <= {K.KILL, K.START, K.WITHHOLD, K.JOIN}
    inserted = [variation._insert(MOVING, (), Random(seed))[0] for seed in range(200)]
    assert all(bool(one.to) is (one.kind is K.REASSIGN) for one in inserted)
    assert {one.to for one in inserted} == {(), *MOVING.targets}
    assert K.CANCEL in {one.kind for one in inserted}
    still = [variation._insert(ELECTING, (), Random(seed))[0].kind for seed in range(200)]
    assert K.CANCEL not in still


def test_elections_and_moves_are_limited_by_their_budgets() -> None:
    elect = Operation(kind=K.ELECT, broker=1)
    assert permitted(ELECTING, (elect,))
    assert not permitted(ELECTING, (elect, Operation(kind=K.ELECT, broker=0))), "two"
    none = replace(ELECTING, budgets=Budgets(kills=2))
    assert not permitted(none, (elect,))
    assert permitted(none, (LATE,)), "a delay costs nothing"
    assert not permitted(replace(none, misses_epochs=False), (LATE,))
    lags = (Operation(kind=K.LAG, broker=1), Operation(kind=K.LAG, broker=2))
    cancelled = (*lags, move(3, 1, 2), Operation(kind=K.CANCEL, broker=3))
    older = replace(MOVING, kafka_version="4.1.2", elr_enabled=True)
    assert permitted(older, cancelled)
    once = replace(older, budgets=Budgets(reassignments=1, shrinks=2))
    assert not permitted(once, cancelled)


def test_only_what_is_possible_is_offered() -> None:
    def possible(*operations: Operation, model: AdversaryModel = ELECTING) -> bool:
        return carried_out(model, operations) is not None

    kill, start = Operation(kind=K.KILL, broker=0), Operation(kind=K.START, broker=0)
    elect = Operation(kind=K.ELECT, broker=0)
    assert not possible(elect), "it leads"
    assert not possible(kill, elect), "it is not in the ISR"
    assert possible(kill, start, elect)
    old = replace(ELECTING, kafka_version="2.8.2", misses_epochs=False)
    assert possible(kill, start, elect, model=old)
    assert not possible(Operation(kind=K.ELECT, broker=1), model=old), "not the preferred replica"
    assert possible(LATE)
    assert not possible(LATE, LATE)
    assert not possible(LATE, Operation(kind=K.STOP, broker=1)), "it waits until all have learned"
    assert not possible(LATE, kill, start), "it could not register"
    assert not possible(at_once(K.HOLD_FETCHES, 0)), "the leader does not fetch"
    assert not possible(at_once(K.WITHHOLD, 1)), "nothing is fetched from a follower"
    assert not possible(Operation(kind=K.CUT_OFF, broker=1)), "links lead through a proxy"
    cancel = Operation(kind=K.CANCEL, broker=3)
    assert not possible(move(1, 2, 3), model=MOVING)
    dead = Operation(kind=K.KILL, broker=1)
    assert not possible(dead, move(3, 1, 2), model=MOVING), "the tool refuses fenced brokers"
    assert not possible(dead, Operation(kind=K.ELECT, broker=2)), "the tool refuses fenced brokers"
    assert not possible(move(3, 1, 2), cancel, model=MOVING), "it is complete"
    lags = (Operation(kind=K.LAG, broker=1), Operation(kind=K.LAG, broker=2))
    older = replace(MOVING, kafka_version="4.1.2", elr_enabled=True)
    assert possible(*lags, move(3, 1, 2), cancel, model=older), "others must be in sync first"


def test_an_election_changes_the_order_of_replicas() -> None:
    plan = carried_out(ELECTING, (Operation(kind=K.ELECT, broker=2),))
    assert plan is not None
    now = plan.stages[-1].plan_state.state.controller
    assert now.assignment is not None
    assert (now.leader, now.epoch, now.assignment.replicas) == (2, 1, (2, 0, 1))


def test_pairs_of_an_election_have_schedules() -> None:
    plan = carried_out(ELECTING, (Operation(kind=K.ELECT, broker=2),))
    assert plan is not None
    wanted = {pair for pair in plan.stages[-1].pairs if pair.step in ("move leader", "truncate")}
    found = plans_to(ELECTING, wanted, most=200)
    assert found.keys() == wanted
    assert {words(each.operations)[0] for each in found.values()} == {"elect 2"}
