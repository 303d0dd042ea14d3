"""The search finds what moves and missed epochs lose, in the versions that lose it, and no twin."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from ackproof_model.adversary import AdversaryModel, Budgets, search
from ackproof_model.adversary.state import State, Writes, initial
from ackproof_model.adversary.successors import successors
from ackproof_model.replication.controller import can_reassign, reassign
from ackproof_model.replication.replica import can_delete, deleted, learn
from ackproof_model.replication.state import DOWN, NOBODY, UNASSIGNED, entry

#: A move from brokers 0, 1 and 2 to 1, 2 and 3, and back.
AWAY, BACK = (1, 2, 3), (0, 1, 2)
LAGGING, IN_SYNC = 0b001, 0b111


def moving(version: str, requests: int, isr: int = LAGGING, **changes: object) -> AdversaryModel:
    """Return three replicas on four brokers, all of which have the record that was acked.

    isr: with `LAGGING`, brokers 1 and 2 have left the ISR since.
    """
    model = AdversaryModel(
        kafka_version=version,
        budgets=Budgets(reassignments=requests, kills=1),
        spare_brokers=1,
        targets=(AWAY, BACK),
        start=acked(version, isr),
    )
    return replace(model, **changes)


def acked(version: str, isr: int) -> State:
    moves = Budgets(reassignments=1)
    now = initial(AdversaryModel(kafka_version=version, budgets=moves, spare_brokers=1))
    leader, *followers, spare = now.brokers
    log = (entry(0, 0),)
    leader = leader._replace(log=log, hw=1, isr=isr, remote=(-1, 1, 1, UNASSIGNED))
    return now._replace(
        controller=now.controller._replace(isr=isr),
        brokers=(leader, *(one._replace(log=log) for one in followers), spare),
        writes=Writes(1, 1),
    )


def steps(model: AdversaryModel) -> list[str]:
    """Return the kinds of steps of a shortest loss; none if there is no loss."""
    found = search(model)
    assert found.complete
    return [str(label[0]) for label, _ in found.trace]


@pytest.mark.parametrize(
    ("version", "end", "step"),
    [
        ("4.3.1", "kills", "kill"),
        ("4.4.0", "kills", "kill"),
        ("4.4.0", "clean_stops", "stop"),
        ("4.4.0", "fencings", "cut off"),
    ],
)
def test_two_moves_and_an_end_elect_a_removed_replica_without_its_log(version, end, step):
    lost = steps(moving(version, 2, budgets=Budgets(reassignments=2, **{end: 1})))
    assert (lost.count("reassign"), lost.count("delete"), lost.count(step)) == (2, 1, 1)
    assert "cancel" not in lost


def test_before_4_3_it_takes_a_cancellation():
    assert steps(moving("4.1.2", 2)) == []
    lost = steps(moving("4.1.2", 3))
    assert (lost.count("reassign"), lost.count("cancel"), lost.count("delete")) == (2, 1, 1)


@pytest.mark.slow
def test_before_4_3_three_moves_without_a_cancellation_lose_nothing(monkeypatch):
    # `worst_case.answer` says so of any number of moves and kills: no schedule cancels one.
    monkeypatch.setattr(sys.modules[successors.__module__], "can_cancel", lambda *_: False)
    assert steps(moving("4.1.2", 3)) == []
    assert steps(moving("4.3.1", 3)) != []


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(moving("3.9.2", 3), id="without ELR", marks=pytest.mark.slow),
        pytest.param(moving("4.4.0", 1), id="one move"),
        pytest.param(moving("4.4.0", 2, IN_SYNC), id="the others are in sync"),
        pytest.param(moving("4.4.0", 2, budgets=Budgets(reassignments=2)), id="without a kill"),
    ],
)
def test_the_twins_lose_nothing(model):
    assert steps(model) == []


def test_replicas_may_become_fewer_and_more():
    # From 3.8 on a move to fewer replicas waits until all of them are in the ISR (KAFKA-15665).
    fewer = Budgets(reassignments=1)
    for version, waits in (("3.7.2", False), ("3.9.2", True), ("4.4.0", True)):
        model = moving(version, 1, targets=((0, 1), (0, 1, 2, 3)), budgets=fewer)
        assert search(model).impossible
        assert _shrinks_at_once(model) is not waits


def _shrinks_at_once(model: AdversaryModel) -> bool:
    after = dict(successors(model, initial(model)))
    assignment = after["reassign", 0, 1].controller.assignment
    assert assignment is not None
    return assignment.replicas == (0, 1)


def test_a_replica_that_returns_keeps_its_log_until_its_broker_has_deleted_it():
    model = moving("4.4.0", 1)
    now = acked("4.4.0", IN_SYNC)
    away = reassign(model.policy, now.controller, AWAY)
    assert away.assigned(0)
    gone = away._replace(assignment=away.assignment._replace(replicas=AWAY), leader=1, epoch=1)
    late, prompt = now.brokers[0], deleted(now.brokers[0])
    assert can_delete(gone, late, 0)
    assert not can_delete(gone, prompt, 0)
    assert not can_delete(gone, late._replace(status=DOWN), 0)
    returned = reassign(model.policy, gone, BACK)
    logs = [len(learn(model.policy, returned, one, 0).log) for one in (late, prompt)]
    assert logs == [1, 0]


@pytest.mark.parametrize(
    "budgets",
    [
        {"leader_moves": 2, "kills": 1},
        pytest.param({"leader_moves": 1, "kills": 2}, marks=pytest.mark.slow),
    ],
)
def test_a_leader_that_misses_an_epoch_loses_a_record(budgets):
    model = AdversaryModel(kafka_version="4.4.0", budgets=Budgets(**budgets))
    assert search(model).impossible
    missing = replace(model, misses_epochs=True)
    lost = steps(missing)
    assert "move leader" in lost
    assert "kill" in lost


def test_a_removed_replica_that_is_eligible_alone_cannot_be_assigned_again():
    # Kafka 4.4.0 answers UNKNOWN_SERVER_ERROR (seen on brokers), and there is no leader.
    model = moving("4.4.0", 2)
    now = acked("4.4.0", LAGGING).controller
    assert can_reassign(model.policy, now, AWAY)
    alone = now._replace(
        leader=NOBODY, isr=0, elr=0b0001, assignment=now.assignment._replace(replicas=AWAY)
    )
    assert not can_reassign(model.policy, alone, BACK)
    assert can_reassign(model.policy, alone._replace(fenced=0b0001), BACK)
    assert can_reassign(model.policy, alone, (3, 1, 2))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"kafka_version": "2.8.2"}, "with KRaft only"),
        ({"spare_brokers": 3}, "5 brokers at most"),
        ({"targets": ((1,),)}, "at least as many replicas"),
    ],
)
def test_moves_that_are_not_modelled_are_refused(wrong, says):
    given = {"kafka_version": "4.4.0", "budgets": Budgets(reassignments=1), **wrong}
    with pytest.raises(ValueError, match=says):
        AdversaryModel(**given)
