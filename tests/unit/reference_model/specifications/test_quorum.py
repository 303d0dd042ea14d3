"""Which failures a majority quorum survives, compared with in-sync replicas."""

from __future__ import annotations

import pytest

from ackproof_model import adversary
from ackproof_model.adversary import AdversaryModel, Budgets
from specifications import quorum
from specifications.quorum import QuorumModel, initial, search, successors, writable


@pytest.mark.parametrize(
    ("model", "lost"),
    [
        (QuorumModel(voters=3, kills=2, records=2, elections=2), False),
        (QuorumModel(voters=3, power_losses=2, records=2), False),
        (QuorumModel(voters=3, power_losses=1, fsync=False), True),
        (QuorumModel(voters=5, power_losses=1, fsync=False), True),
        (QuorumModel(voters=3, kills=2, fsync=False), False),
        # One voter is its own majority.
        (QuorumModel(voters=1, kills=1, elections=1), False),
        (QuorumModel(voters=1, power_losses=1, fsync=False, elections=1), True),
    ],
)
def test_what_a_quorum_loses(model, lost):
    answer = search(model)
    assert answer.complete
    assert (answer.lost, answer.impossible) == (lost, not lost)


def test_the_shortest_way_to_a_loss_without_fsync():
    answer = search(QuorumModel(voters=3, power_losses=1, fsync=False))
    assert answer.trace == (
        "write",
        "fetch",
        "commit",
        "lose power, keep 0",
        "restart",
        "elect",
    )


@pytest.mark.parametrize(("voters", "survives"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)])
def test_a_majority_must_live_to_commit(voters, survives):
    model = QuorumModel(voters=voters)
    assert writable(model, survives)
    assert not writable(model, survives + 1)


def test_a_search_without_room_decides_nothing():
    answer = search(QuorumModel(voters=3, kills=1), max_states=10)
    assert not answer.complete
    assert not answer.impossible


def test_who_may_be_elected_hangs_on_the_log(monkeypatch):
    monkeypatch.setattr(quorum, "_reach", lambda state, voter: (0, 0))
    assert search(QuorumModel(voters=3, kills=1)).lost


def test_fewer_than_a_majority_decide_nothing(monkeypatch):
    monkeypatch.setattr(QuorumModel, "majority", 2)
    assert search(QuorumModel(voters=5, kills=1)).lost


def test_a_record_of_an_earlier_epoch_is_not_committed_for_being_with_a_majority(monkeypatch):
    # Figure 8 of the Raft paper, with three voters.
    model = QuorumModel(voters=3, records=2, elections=3)
    assert search(model).impossible
    leading = quorum._leading

    def of_any_epoch(model, state, number, leader):
        own = state._replace(epochs=(leader.epoch,) * len(state.epochs))
        for what, after in leading(model, own, number, leader):
            wrote = (leader.epoch,) if what == "write" else ()
            yield what, after._replace(epochs=(*state.epochs, *wrote))

    monkeypatch.setattr(quorum, "_leading", of_any_epoch)
    assert search(model).lost


def test_voters_are_alike():
    model = QuorumModel(voters=3)
    kinds = [what for what, _ in successors(model, initial(model))]
    assert kinds.count("write") == 1


@pytest.mark.parametrize(
    ("replicas", "minimum", "lost"),
    [(2, 1, True), (3, 2, False)],
)
def test_for_one_failure_in_sync_replicas_need_as_many_copies_as_a_quorum(replicas, minimum, lost):
    # An ISR of one replica loses what it acked with its power; a majority has fsynced it.
    model = AdversaryModel(
        kafka_version="4.3.1",
        replicas=replicas,
        min_insync_replicas=minimum,
        budgets=Budgets(power_losses=1, shrinks=1),
    )
    assert adversary.search(model).lost is lost
