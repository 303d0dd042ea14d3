"""The rules about missed epochs and removed replicas say what the exact search finds."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, replace

import pytest

from ackproof_model.adversary import AdversaryModel, Budgets, search
from ackproof_model.adversary.state import State, initial
from ackproof_model.adversary.successors import successors
from ackproof_model.breadth_first import reachable
from ackproof_model.perturbations import Counts
from ackproof_model.replication.controller import can_move_leader, preferred
from ackproof_model.replication.state import Label
from ackproof_model.worst_case.minima import Question
from ackproof_model.worst_case.moves import (
    MISSED_EPOCH,
    loses_by_missed_epoch,
    lost_with_moves,
    may_miss_an_epoch,
    moving_key,
    removals,
    searched_with_moves,
    stored,
)


def question(version: str = "4.4.0", *, elr: bool = True, minimum: int = 2) -> Question:
    return Question(
        kafka_version=version,
        elr=elr,
        acks="all",
        replicas=3,
        min_insync_replicas=minimum,
        unclean=False,
    )


def loses(asked: Question, **budgets: int) -> bool:
    """Whether the search loses a record if leaders may miss epochs."""
    found = search(asked.model(budgets=Budgets(**budgets), misses_epochs=True))
    assert found.complete or found.lost
    return found.lost


@pytest.mark.parametrize(
    ("asked", "counts"),
    [
        (question(), {"leader_moves": 1, "kills": 2}),
        *(
            pytest.param(asked, counts, marks=pytest.mark.slow)
            for asked, counts in (
                (question(), {"leader_moves": 1, "clean_stops": 2}),
                (question(minimum=3), {"leader_moves": 2, "kills": 1}),
                (question(minimum=1), {"leader_moves": 1, "fencings": 1, "kills": 1}),
            )
        ),
        (question("3.4.1", elr=False), {"leader_moves": 3}),
        (question(), {"leader_moves": 2}),
        (question(), {"leader_moves": 1, "kills": 1}),
    ],
)
def test_a_missed_epoch_loses_by_the_search_where_the_rule_says_so(
    asked: Question, counts: dict[str, int]
) -> None:
    events = sum(counts.values())
    ruled = loses_by_missed_epoch(asked, Counts(**counts), events=events, balanced=False)
    assert loses(asked, **counts) is ruled
    assert ruled is (events > 2)


@pytest.mark.parametrize(
    ("elections", "ends", "lost"), [(1, {"fencings": 3}, True), (2, {"kills": 2}, False)]
)
def test_elections_of_the_preferred_replica_alone_lose_after_three_ends(
    elections: int, ends: dict[str, int], lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The balancer elects the first replica only (`electPreferred`)."""
    monkeypatch.setattr(
        sys.modules[successors.__module__],
        "can_move_leader",
        lambda controller, number: number == 0 and can_move_leader(controller, number),
    )
    assert loses(question(), leader_moves=elections, **ends) is lost
    events = sum(ends.values())
    counts = Counts(**ends)
    assert loses_by_missed_epoch(question(), counts, events=events, balanced=True) is lost
    assert may_miss_an_epoch(question(), counts, balanced=True) is lost
    assert not may_miss_an_epoch(question(), counts, balanced=False)


@pytest.mark.parametrize("minimum", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize(
    ("counts", "lost"),
    [
        pytest.param(
            {"reassignments": 1, "leader_moves": 1, "kills": 1}, True, marks=pytest.mark.slow
        ),
        pytest.param({"reassignments": 2, "leader_moves": 1}, True, marks=pytest.mark.slow),
        ({"reassignments": 1, "leader_moves": 2}, True),
        ({"reassignments": 1, "kills": 2}, False),
    ],
)
def test_two_replicas_that_move_are_not_known_to_keep_what_a_third_may_have_truncated(
    counts: dict[str, int], lost: bool, minimum: int
) -> None:
    two = replace(question(minimum=minimum), replicas=2)
    model = two.model(budgets=Budgets(**counts), misses_epochs=True, spare_brokers=1)
    found = search(model)
    assert found.complete or found.lost
    assert found.lost is lost  # `leader_moves` may elect each member of the ISR
    for balanced in (False, True):
        assert not lost or may_miss_an_epoch(two, Counts(**counts), balanced=balanced)
    sole = replace(two, replicas=1, min_insync_replicas=1)
    assert not may_miss_an_epoch(sole, Counts(**counts), balanced=True)


@pytest.mark.slow
def test_moves_may_change_the_preferred_replica_which_the_balancer_elects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        sys.modules[successors.__module__],
        "can_move_leader",
        lambda controller, number: (
            number == controller.assignment.replicas[0] and can_move_leader(controller, number)
        ),
    )
    asked = question(elr=False)
    budgets = Budgets(reassignments=3, leader_moves=3)
    orders = ((1, 0, 2), (0, 1, 2), (2, 0, 1))
    assert search(asked.model(budgets=budgets, targets=orders, misses_epochs=True)).lost
    assert may_miss_an_epoch(asked, Counts(reassignments=3), balanced=True)
    assert not may_miss_an_epoch(asked, Counts(reassignments=3), balanced=False)
    assert not may_miss_an_epoch(asked, Counts(reassignments=2), balanced=True)


def test_a_rack_is_one_event_and_zookeeper_mode_is_not_decided() -> None:
    rack = Counts(leader_moves=1, power_losses=2)
    assert not loses_by_missed_epoch(question(), rack, events=2, balanced=False)
    assert may_miss_an_epoch(question(), rack, balanced=False)
    old = question("2.8.2", elr=False)
    assert not loses_by_missed_epoch(old, Counts(leader_moves=3), events=3, balanced=False)
    assert may_miss_an_epoch(old, Counts(leader_moves=3), balanced=False)


@pytest.mark.parametrize(
    ("version", "elr", "minimum", "number"),
    [
        ("4.4.0", True, 2, 2),
        ("4.4.0", True, 3, 2),
        ("4.1.2", True, 2, 3),
        ("4.0.1", True, 2, 3),
        ("4.4.0", True, 1, 0),
        ("3.9.2", False, 2, 0),
    ],
)
def test_how_many_moves_remove_a_replica_that_stays_eligible(
    version: str, elr: bool, minimum: int, number: int
) -> None:
    """`tests/unit/reference_model/adversary/test_moves.py` searches the losses themselves."""
    assert removals(question(version, elr=elr, minimum=minimum)) == number


#: So many states are searched again in a test at most.
FEW = 10_000


def test_small_stored_sets_with_moves_are_searched_again_and_a_control_loses() -> None:
    two = replace(question(minimum=1), replicas=2)
    again = [
        (asked, one)
        for asked in (replace(two, replicas=1), two)
        for one in stored()[moving_key(asked)].searched
        if one.elections and one.states < FEW
    ]
    assert len(again) > 3
    for asked, one in again:
        found = search(with_moves(asked, one.limits, balanced=one.balanced))
        assert (found.impossible, found.states) == (True, one.states)
    known = stored()[moving_key(two)].losing
    first = min(known, key=lambda one: len(one.found.steps))
    assert first.way is MISSED_EPOCH
    control = search(with_moves(two, first.found.counts, balanced=first.balanced))
    assert tuple(label for label, _ in control.trace) == first.found.steps
    assert not searched_with_moves(two, first.found.counts, balanced=True)
    assert lost_with_moves(two, first.found.counts, balanced=True) == first


def with_moves(asked: Question, limits: Counts, *, balanced: bool) -> AdversaryModel:
    counts = {kind: int(number) for kind, number in asdict(limits).items() if number < math.inf}
    lagging = limits.shrinks == math.inf
    budgets = Budgets(**counts, in_all=sum(counts.values()), always_lagging=lagging)
    return asked.model(budgets=budgets, spare_brokers=1, misses_epochs=True, balanced=balanced)


@pytest.mark.slow
def test_the_balancer_elects_the_first_replica_only_and_whenever_it_may() -> None:
    """The packed search has the states of the specification."""
    two = replace(question(minimum=1), replicas=2)
    model = with_moves(two, Counts(reassignments=1, kills=1), balanced=True)
    balanced = set()

    def steps(state: State) -> list[tuple[Label, State]]:
        found = list(successors(model, state))
        balanced.update(
            after.controller.leader == preferred(state.controller)
            for label, after in found
            if label[0] == "balance"
        )
        return found

    assert search(model).states == sum(1 for _ in reachable(initial(model), steps))
    assert balanced == {True}


@pytest.mark.slow
def test_the_stored_searches_of_moves_are_of_these_rules_and_one_is_searched_again() -> None:
    asked = question()
    known = stored()[moving_key(asked)].searched
    twice = next(one for one in known if one.limits.reassignments == 2)
    found = search(
        AdversaryModel(kafka_version="4.4.0", budgets=Budgets(reassignments=2), spare_brokers=1)
    )
    assert (found.lost, found.states) == (False, twice.states)
    assert twice.covers(Counts(reassignments=2))
    assert not twice.covers(Counts(reassignments=1, kills=1))
