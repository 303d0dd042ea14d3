"""Single checks: elections, eligible replicas, truncation, the high watermark, configurations."""

from __future__ import annotations

import pytest

from ackproof_model import Configuration, Profile, predict
from ackproof_model.prediction.model import Model
from ackproof_model.replication.controller import change, fence, register
from ackproof_model.replication.replica import (
    advance_high_watermark,
    fetch,
    following,
    joinable,
    learn,
)
from ackproof_model.replication.state import NOBODY, UP, Broker, Controller, entry

A, B, C = 1, 2, 4


@pytest.fixture
def start(configure):
    def make(version):
        model = Model(configure(kafka_version=version), ())
        return model, model.initial().controller

    return make


def test_the_first_in_assignment_order_is_elected(start):
    model, controller = start("3.9.1")
    after = fence(model.policy, controller, 0)
    assert (after.leader, after.epoch, after.isr, after.fenced) == (1, 1, B | C, A)
    assert fence(model.policy, after, 2).leader == 1  # the leader stays while it is valid


def test_without_elr_the_last_member_is_waited_for(start):
    # No unclean leader election: only the last in-sync replica may lead again.
    model, controller = start("3.9.1")
    for replica in (0, 1, 2):
        controller = fence(model.policy, controller, replica)
    assert (controller.leader, controller.isr) == (NOBODY, C)
    controller = register(model.policy, controller, 0, clean=True)
    assert controller.leader == NOBODY
    assert register(model.policy, controller, 2, clean=False).leader == 2


def test_an_eligible_replica_that_stopped_cleanly_is_elected(start):
    model, controller = start("4.1.0")
    for replica in (0, 1, 2):
        controller = fence(model.policy, controller, replica)
    assert (controller.leader, controller.isr, controller.elr) == (NOBODY, 0, B | C)
    assert controller.last_known == 2
    after = register(model.policy, controller, 1, clean=True)
    assert (after.leader, after.isr, after.elr) == (1, B, C)


def test_after_unclean_stops_only_the_last_known_leader_is_elected(start):
    # KIP-966: an unclean registration leaves the ELR; an empty ELR falls back to the last leader.
    model, controller = start("4.1.0")
    for replica in (0, 1, 2):
        controller = fence(model.policy, controller, replica)
    first = register(model.policy, controller, 2, clean=False)
    assert (first.leader, first.elr) == (NOBODY, B)  # B may still come back with its log
    both = register(model.policy, first, 1, clean=False)
    assert (both.leader, both.isr, both.elr) == (2, C, 0)


def test_a_full_isr_empties_the_elr(start):
    model, controller = start("4.1.0")
    alone = change(model.policy, controller, A)
    assert (alone.isr, alone.elr) == (A, B | C)
    assert change(model.policy, alone, A | B).elr == 0


@pytest.mark.parametrize(
    ("mine", "leaders", "kept"),
    [
        ([(0, 0), (0, 1)], [(0, 0), (1, 2)], 1),  # KIP-101: the unreplicated tail goes
        ([(0, 0), (1, 1), (1, 2)], [(0, 0), (2, 3)], 1),  # KIP-279: an epoch it never had
        ([(0, 0), (0, 1)], [(0, 0), (0, 1), (1, 2)], 2),
        ([(1, 0)], [(0, 1), (2, 2)], 0),
    ],
)
def test_a_follower_truncates_what_diverges(configure, mine, leaders, kept):
    model = Model(configure(replication_factor=2), ())
    log = tuple(entry(*one) for one in leaders)
    leader = (
        model.initial()
        .brokers[0]
        ._replace(log=log, epoch=3, start=len(log), remote=(NOBODY, NOBODY))
    )
    follower = Broker(UP, False, tuple(entry(*one) for one in mine), 0, 3)
    what, after, _ = fetch(model.policy, follower, 1, leader, 0)
    assert len(after.log) == (kept if what == "truncate" else kept + 1)
    assert (what == "truncate") == (kept < len(mine))


@pytest.mark.parametrize(("version", "watermark"), [("3.6.2", 2), ("3.7.0", 0)])
def test_the_high_watermark_stands_still_below_the_minimum(configure, version, watermark):
    model = Model(configure(kafka_version=version), ())
    leader = model.initial().brokers[0]._replace(log=(0, 1), isr=A)
    assert advance_high_watermark(model.policy, leader, 0).hw == watermark


def test_the_high_watermark_waits_for_a_replica_that_is_being_added(configure):
    model = Model(configure(), ())
    leader = model.initial().brokers[0]
    leader = leader._replace(log=(0, 1), isr=A | B, pending=A | B | C, remote=(NOBODY, 2, 1))
    assert advance_high_watermark(model.policy, leader, 0).hw == 1


def test_a_replica_joins_the_isr_at_the_start_of_the_epoch(configure):
    model = Model(configure(), ())
    state = model.initial()
    leader = state.brokers[0]._replace(log=(0, 1), isr=A, start=2, remote=(NOBODY, 2, 1), epoch=1)
    assert joinable(model.policy, state.controller, leader, 0) == [1]


@pytest.mark.parametrize(
    ("version", "hw_freeze", "elr", "stale_fetch", "fenced_last_known"),
    [
        ("3.6.2", False, False, True, False),
        ("3.7.0", True, False, True, False),
        ("4.0.1", True, False, False, True),
        ("4.3.1", True, True, False, False),
    ],
)
def test_versions_differ_in_freeze_and_elr(version, hw_freeze, elr, stale_fetch, fenced_last_known):
    profile = Profile.of(version)
    assert profile.hw_freeze is hw_freeze
    assert profile.elr is elr
    assert profile.stale_fetch is stale_fetch
    assert profile.fenced_last_known is fenced_last_known


@pytest.mark.parametrize(
    ("version", "may"), [("3.9.0", True), ("3.9.1", False), ("4.0.0", True), ("4.1", False)]
)
def test_replicas_may_diverge_where_late_fetch_responses_are_appended(configure, version, may):
    prediction = predict(configure(kafka_version=version), [])
    assert (prediction.likelihood["diverged"] == "possible") is may
    assert ("KAFKA-18723" in prediction.reasons["diverged"]) is may
    assert prediction.likelihood["gap"] == "impossible"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kafka_version": "0.10.1.1"}, "not modelled"),
        ({"kafka_version": "new"}, "not a version"),
        ({"acks": "2"}, "not one of"),
        ({"idempotence": True, "acks": "1"}, "idempotence needs"),
        ({"idempotence": True, "retries": 0}, "idempotence needs"),
        ({"idempotence": True, "max_in_flight": 6}, "idempotence needs"),
        ({"min_insync_replicas": 0}, "at least 1"),
        ({"brokers": 2}, "as many brokers"),
    ],
)
def test_what_kafka_refuses_is_refused(configure, changes, message):
    with pytest.raises(ValueError, match=message):
        configure(**changes)


def test_a_configuration_is_a_value(configure):
    assert configure() == configure()
    assert isinstance(hash(configure()), int)
    assert isinstance(configure(), Configuration)


@pytest.mark.parametrize("version", ["2.6.2", "3.5.2", "4.3.1"])
def test_a_leader_that_stays_keeps_what_it_knows_of_the_isr(start, version):
    # Partition.makeLeader: only a new leader resets the high watermark and its followers.
    model, _ = start(version)
    known = Broker(UP, False, (0, 1, 2), 0, 4, hw=2, isr=A | B | C, remote=(NOBODY, 3, 2))
    shrunk = Controller(0, 5, A | B, 0, NOBODY, C, 0)
    after = learn(model.policy, shrunk, known, 0)
    assert (after.epoch, after.hw, after.remote) == (5, 3, (NOBODY, 3, NOBODY))
    unfetched = known._replace(remote=(NOBODY,) * 3)
    assert learn(model.policy, shrunk, unfetched, 0).hw == known.hw
    # Another one may have led meanwhile: it does not know. The leader that did know has forgotten.
    again = Controller(0, 6, A | B | C, 0, NOBODY, 0, 0)
    assert learn(model.policy, again, known, 0).remote == known.remote
    deposed = following(model.policy.profile, known, Controller(1, 5, A | B | C, 0, NOBODY, 0, 0))
    after = learn(model.policy, again, deposed, 0)
    assert (after.hw, after.remote) == (0, (NOBODY,) * 3)
