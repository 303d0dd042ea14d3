"""What each version's rules make of the same question: a rule that came later takes a loss away.

Before and after a rule: each pair is a mutant of the later version, with that rule switched off.
"""

from __future__ import annotations

import pytest

from ackproof_model import Profile
from ackproof_model.adversary import AdversaryModel, Budgets, search
from ackproof_model.adversary import moves as steps_of_brokers
from ackproof_model.adversary.moves import moves
from ackproof_model.adversary.state import initial
from ackproof_model.configuration import Truncation
from ackproof_model.replication.controller import (
    alter_isr,
    begin_shutdown,
    can_exit,
    can_offline,
    expire,
    fence,
    offline,
    unfence,
)
from ackproof_model.replication.isr import joins_only_alive
from ackproof_model.replication.leader import fences_fetch
from ackproof_model.replication.log_truncation import kept_end
from ackproof_model.replication.replica import crashed, ended
from ackproof_model.replication.state import DOWN, NOBODY, STOPPING, UP, Broker

A, B, C = 1, 2, 4
ZOOKEEPER = ["0.10.2.2", "1.1.1", "2.3.1", "2.6.2", "3.2.3"]


def model(version, **settings):
    return AdversaryModel(kafka_version=version, **{"unclean_election": False, **settings})


def steps(version, **budgets):
    answer = search(model(version, budgets=Budgets(**budgets)))
    assert answer.complete
    return len(answer.trace)


@pytest.mark.parametrize(
    ("before", "after", "budgets", "shortest"),
    [
        # A restarted follower truncates to its high watermark, and leads next (KIP-101, B10).
        ("0.10.2.2", "0.11.0.2", {"kills": 2}, 12),
        ("0.10.2.2", "0.11.0.2", {"fencings": 2}, 10),
    ],
)
def test_a_rule_takes_a_loss_away(before, after, budgets, shortest):
    assert steps(before, **budgets) == shortest
    assert steps(after, **budgets) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budgets", "shortest"), [({"kills": 2, "fencings": 1}, 18), ({"fencings": 3}, 16)]
)
def test_fenced_fetches_take_a_loss_away(budgets, shortest):
    # A follower that has truncated fetches from a leader of another epoch (KIP-320).
    assert steps("2.0.1", records=2, **budgets) == shortest
    assert steps("2.1.0", records=2, **budgets) == 0


@pytest.mark.parametrize("version", ["0.11.0.2", "1.1.1", "2.0.1", "2.1.1", "2.6.2", "2.8.2"])
def test_from_0_11_on_two_deaths_lose_nothing(version):
    assert steps(version, kills=2) == 0
    assert steps(version, fencings=2) == 0


@pytest.mark.parametrize("version", [pytest.param("2.6.2", marks=pytest.mark.slow), "3.4.1"])
def test_searches_leave_out_leaders_that_miss_an_epoch(version, monkeypatch):
    # Of 3.6 and later they also leave out acks for requests of an earlier epoch.
    asked = model(version, budgets=Budgets(leader_moves=2, kills=1, in_all=3))
    assert search(asked).impossible
    monkeypatch.setattr(steps_of_brokers, "_told_all", lambda broker, controller: broker)
    assert search(asked).lost


@pytest.mark.parametrize(
    ("version", "truncation", "start", "fenced", "asks", "freeze", "elr"),
    [
        ("0.10.2.2", Truncation.HIGH_WATERMARK, False, False, False, False, False),
        ("1.1.1", Truncation.KIP_101, False, False, False, False, False),
        ("2.0.0", Truncation.KIP_279, False, False, False, False, False),
        ("2.0.1", Truncation.KIP_279, True, False, False, False, False),
        ("2.1.0", Truncation.KIP_279, True, True, False, False, False),
        ("2.6.2", Truncation.KIP_279, True, True, False, False, False),
        ("2.7.0", Truncation.ON_FETCH, True, True, True, False, False),
        ("3.6.2", Truncation.ON_FETCH, True, True, True, False, False),
        ("3.7.0", Truncation.ON_FETCH, True, True, True, True, False),
        ("4.1.0", Truncation.ON_FETCH, True, True, True, True, True),
    ],
)
def test_the_rules_of_each_version(version, truncation, start, fenced, asks, freeze, elr):  # noqa: PLR0917
    profile = Profile.of(version)
    assert profile.truncation is truncation
    assert profile.epoch_start is start
    assert profile.fetch_fencing is fenced
    assert profile.alter_partition is asks
    assert (profile.hw_freeze, profile.elr) == (freeze, elr)
    assert profile.zookeeper == (version < "3.3")
    assert fences_fetch(model(version).policy, 1, 2) is fenced


@pytest.mark.parametrize(
    ("version", "unclean", "session", "lag"),
    [
        ("0.10.2.2", True, 6, 10),
        ("0.11.0.2", False, 6, 10),
        ("2.4.1", False, 6, 10),
        ("2.5.0", False, 18, 30),
        ("3.2.3", False, 18, 30),
        ("3.3.1", False, 9, 30),
    ],
)
def test_the_defaults_of_each_version(version, unclean, session, lag):
    profile = Profile.of(version)
    assert profile.unclean_by_default is unclean
    assert (profile.session_timeout_s, profile.lag_time_s) == (session, lag)
    assert AdversaryModel(kafka_version=version).policy.unclean_election is unclean


def test_versions_before_named_listeners_are_refused():
    with pytest.raises(ValueError, match=r"0\.10\.2 or later"):
        Profile.of("0.10.1.1")


def test_kip_101_truncates_to_the_high_watermark_where_the_leader_knows_no_later_epoch():
    before, after = Profile.of("1.1.1"), Profile.of("2.0.1")
    # The leader has no records of the follower's epoch 2: 1.1.1 keeps what diverges.
    assert kept_end(before, (0, 1), (0, 2), truncating=True, high_watermark=2) == 2
    assert kept_end(after, (0, 1), (0, 2), truncating=True, high_watermark=2) == 1
    assert kept_end(before, (0, 1), (0, 0), truncating=True, high_watermark=0) == 1


def test_kip_101_truncates_to_the_high_watermark_where_the_leaders_log_begins_later():
    # The leader has no epoch up to the follower's, so its answer is undefined.
    before, after = Profile.of("1.1.1"), Profile.of("2.0.1")
    assert kept_end(before, (1, 1, 1), (0, 0, 0), truncating=True, high_watermark=2) == 2
    assert kept_end(after, (1, 1, 1), (0, 0, 0), truncating=True, high_watermark=2) == 0


def test_kip_101_compares_the_largest_epochs_of_both_logs():
    # Before 2.0.1 the cache of epochs leaves out an epoch that follows a larger one.
    profile = Profile.of("1.1.1")
    assert kept_end(profile, (0, 0, 0), (0, 1, 0), truncating=True, high_watermark=1) == 1
    assert kept_end(profile, (0, 1, 0), (0, 1, 1, 1), truncating=True, high_watermark=0) == 3


@pytest.mark.parametrize("version", ZOOKEEPER)
def test_the_last_in_sync_replica_stays_in_the_isr(version):
    policy = model(version).policy
    now = initial(model(version)).controller
    for replica in (0, 1, 2):
        now = fence(policy, now, replica)
    assert (now.leader, now.isr) == (NOBODY, C)
    assert unfence(policy, now, 0).leader == NOBODY
    assert unfence(policy, now, 2).leader == 2


@pytest.mark.parametrize("version", ZOOKEEPER)
def test_without_a_controller_the_isr_keeps_all_that_die_together(version):
    # Claim 40: either one restores the partition, if the controller died with them.
    policy = model(version).policy
    now = initial(model(version)).controller._replace(isr=A | B)
    dead = expire(policy, expire(policy, now, 1), 0)
    assert (dead.leader, dead.isr) == (NOBODY, A | B)
    for back in (0, 1):
        restored = unfence(policy, dead, back)
        assert (restored.leader, restored.isr) == (back, 1 << back)
    assert unfence(policy, dead, 2).leader == NOBODY
    # From 2.4 the next controller takes dead replicas out of the ISR, but for the last.
    keeps = Profile.of(version).failover_keeps_isr
    assert can_offline(policy, dead, 0) is not keeps
    one_left = offline(policy, dead, 0)
    assert one_left.isr == B
    assert not can_offline(policy, one_left, 1)


def test_a_new_controller_elects_where_the_old_leader_died_with_the_old_controller():
    policy = model("2.3.1").policy
    now = initial(model("2.3.1")).controller
    elected = expire(policy, now, 0)
    assert (elected.leader, elected.isr, elected.epoch) == (1, B | C, now.epoch + 1)
    left = expire(policy, now, 2)  # a dead follower stays in the ISR
    assert (left.leader, left.isr, left.fenced) == (0, A | B | C, C)


def test_a_zookeeper_controller_raises_the_leader_epoch_and_a_leader_does_not():
    now = initial(model("2.6.2")).controller
    for version in (*ZOOKEEPER, "3.5.1"):
        assert fence(model(version).policy, now, 2).epoch == 1  # 3.5: KAFKA-15021
    assert fence(model("3.6.0").policy, now, 2).epoch == 0
    assert alter_isr(model("2.6.2").policy, now, A | B).epoch == 0
    assert alter_isr(model("3.5.1").policy, now, A | B).epoch == 1


def test_a_shutdown_without_a_successor_ends_all_the_same():
    policy = model("2.6.2").policy
    alone = initial(model("2.6.2")).controller._replace(isr=A)
    stopping = begin_shutdown(policy, alone, 0)
    assert stopping.leader == 0
    leader = initial(model("2.6.2")).brokers[0]._replace(status=STOPPING)
    assert can_exit(policy, stopping, leader, 0)
    assert not can_exit(policy, stopping, leader._replace(status=UP), 0)
    three = begin_shutdown(policy, alone._replace(isr=A | B | C), 0)
    assert (three.leader, three.isr) == (1, B | C)
    kraft = model("3.6.0").policy
    assert begin_shutdown(kraft, alone, 0).leader == NOBODY


def test_between_2_7_and_kraft_a_dead_replica_may_join_the_isr():
    expected = {"2.6.2": True, "2.7.0": False, "3.2.3": False, "3.3.1": True}
    for version, alive in expected.items():
        assert joins_only_alive(model(version).policy) is alive
        chief, _, last = initial(model(version)).brokers
        alone = chief._replace(isr=A | B, remote=(NOBODY, 0, 0))
        now = initial(model(version)).controller._replace(isr=A | B, fenced=C)
        joins = [label for label, *_ in moves(model(version), now, alone, 0)]
        assert (("expand", 0, 2) in joins) is not alive
        assert last.status != DOWN


def test_before_2_7_the_isr_changes_while_the_leader_waits():
    joiner = ("expand", 0, 2)
    for version, waits in (("2.6.2", True), ("2.8.2", False)):
        one = model(version)
        start = initial(one)
        now = start.controller._replace(isr=A | B)
        chief = start.brokers[0]._replace(isr=A | B, remote=(NOBODY, 0, 0))
        found = {label: (after, leader) for label, after, leader in moves(one, now, chief, 0)}
        after, leader = found[joiner]
        assert (after.isr == A | B | C) is waits
        assert (leader.isr == A | B | C) is waits
        assert bool(leader.pending) is not waits


def test_a_killed_broker_may_have_any_earlier_high_watermark_where_that_matters():
    broker = Broker(UP, False, (0, 1), 0, 0, hw=2)
    for version, kept, watermarks in (
        ("0.10.2.2", 2, [0, 1, 2]),
        ("1.1.1", 1, [0, 1]),
        ("2.0.1", 2, [0]),
    ):
        down = ended(model(version).policy, broker)
        assert [one.hw for one in crashed(down, [kept])] == watermarks
