"""What Kafka is known to do must come out of the search, for every way of acknowledging."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ackproof_model import (
    Ability,
    Elapsed,
    FaultEvent,
    Injection,
    IsrIs,
    IsrSize,
    Likelihood,
    predict,
)
from unit.reference_model.schedules import (
    ACKED,
    ALL,
    ANY_ONE,
    CUT,
    DEMO,
    FOLLOWERS,
    KILL,
    KILL_FOLLOWERS,
    KILL_LEADER,
    LEADER,
    LONG_CUT,
    MORE_ACKED,
    NO_FAULT,
    POWER_LOSS,
    RESTART_FOLLOWERS,
    RESTART_LEADER,
    SAME,
    SHUTDOWN,
    TWO_LEADERS,
    UNBOUNDED_DEMO,
    injection,
    isr,
    kill,
)

IMPOSSIBLE, POSSIBLE, CERTAIN = Likelihood

ZERO, ONE = {"acks": "0"}, {"acks": "1"}
PLAIN, IDEMPOTENT = {"acks": "all"}, {"acks": "all", "idempotence": True}
WAYS = [ZERO, ONE, PLAIN, IDEMPOTENT]


def likelihood(configuration, schedule):
    prediction = predict(configuration, schedule)
    assert prediction.complete
    return prediction.likelihood


@pytest.mark.parametrize("settings", WAYS)
@pytest.mark.parametrize("schedule", [NO_FAULT, (Injection(fault="none"),)])
def test_without_a_fault_nothing_goes_wrong(configure, settings, schedule):
    assert set(likelihood(configure(**settings), schedule).values()) == {IMPOSSIBLE}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (ZERO, (CERTAIN, IMPOSSIBLE, IMPOSSIBLE)),
        (ONE, (CERTAIN, IMPOSSIBLE, POSSIBLE)),
        (PLAIN, (IMPOSSIBLE, POSSIBLE, POSSIBLE)),
        (PLAIN | {"max_in_flight": 1}, (IMPOSSIBLE, POSSIBLE, IMPOSSIBLE)),
        (IDEMPOTENT, (IMPOSSIBLE, IMPOSSIBLE, IMPOSSIBLE)),
    ],
)
@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_the_leader_dies_while_replication_is_cut(configure, version, settings, expected):
    # Expected: lost, duplicated, reordered.
    seen = likelihood(configure(kafka_version=version, **settings), DEMO)
    assert (seen["lost"], seen["duplicated"], seen["reordered"]) == expected


@pytest.mark.parametrize(
    ("version", "min_isr", "lost"),
    [
        ("3.9.1", 2, POSSIBLE),  # the ISR may shrink to the leader first: then it is waited for
        ("4.1.0", 1, POSSIBLE),
        ("4.1.0", 2, CERTAIN),  # an eligible replica is elected all the same
    ],
)
def test_without_a_time_limit_the_isr_may_shrink_first(configure, version, min_isr, lost):
    configuration = configure(acks="1", kafka_version=version, min_insync_replicas=min_isr)
    assert likelihood(configuration, UNBOUNDED_DEMO)["lost"] == lost


@pytest.mark.parametrize(
    ("schedule", "settings", "lost"),
    [
        (KILL_LEADER, ZERO, POSSIBLE),
        (KILL_LEADER, ONE, POSSIBLE),
        (KILL_LEADER, PLAIN, IMPOSSIBLE),
        (KILL_LEADER, IDEMPOTENT, IMPOSSIBLE),
        (KILL_FOLLOWERS, ZERO, IMPOSSIBLE),
        (KILL_FOLLOWERS, ONE, IMPOSSIBLE),
        (KILL_FOLLOWERS, PLAIN, IMPOSSIBLE),
        # A record acked by the old leader after the new one's last fetch.
        (RESTART_LEADER, ZERO, POSSIBLE),
        (RESTART_LEADER, ONE, POSSIBLE),
        (RESTART_LEADER, PLAIN, IMPOSSIBLE),
        (RESTART_FOLLOWERS, ONE, IMPOSSIBLE),
        (LONG_CUT, ONE, IMPOSSIBLE),
        (LONG_CUT, IDEMPOTENT, IMPOSSIBLE),
        ((kill(ANY_ONE),), ONE, POSSIBLE),
        ((kill(ALL),), ONE, POSSIBLE),
        ((kill(ALL),), PLAIN, IMPOSSIBLE),
        (TWO_LEADERS, IDEMPOTENT, IMPOSSIBLE),
    ],
)
def test_loss_by_fault_and_acks(configure, schedule, settings, lost):
    assert likelihood(configure(**settings), schedule)["lost"] == lost


def test_a_broker_that_may_hold_no_replica_makes_loss_uncertain(configure):
    schedule = (
        CUT,
        kill(LEADER | ANY_ONE, when=(MORE_ACKED,), or_after=5.0),
    )
    assert likelihood(configure(acks="1"), schedule)["lost"] == CERTAIN
    schedule = (CUT, kill(ANY_ONE, when=(MORE_ACKED,), or_after=5.0, heal_when=()))
    assert likelihood(configure(acks="1"), schedule)["lost"] == POSSIBLE


@pytest.mark.parametrize(
    ("settings", "lost"), [(ONE, POSSIBLE), (PLAIN, IMPOSSIBLE), (IDEMPOTENT, IMPOSSIBLE)]
)
def test_one_unknown_broker_is_cut_off_and_killed(configure, settings, lost):
    # The demo as another partition sees it. Its condition on a foreign ISR may hold at any time.
    any_time = IsrSize(op=">=", size=0)
    cut = replace(CUT, targets=ANY_ONE, when=(ACKED, any_time))
    death = kill(SAME, when=(MORE_ACKED,), or_after=5.0, heal_when=(any_time,))
    assert likelihood(configure(**settings), (cut, death))["lost"] == lost


@pytest.mark.parametrize("version", ["3.6.2", "3.9.1", "4.1.0"])
def test_sigkill_loses_nothing_that_all_in_sync_replicas_had(configure, version):
    # It takes a power loss of the sole ISR member.
    configuration = configure(kafka_version=version, min_insync_replicas=1, max_in_flight=1)
    for schedule in (KILL_LEADER, UNBOUNDED_DEMO):
        assert likelihood(configuration, schedule)["lost"] == IMPOSSIBLE


@pytest.mark.parametrize(
    ("version", "unclean", "lost"),
    [
        ("3.9.1", False, IMPOSSIBLE),
        ("3.9.1", True, POSSIBLE),
        ("3.8.1", True, IMPOSSIBLE),  # KAFKA-12670
        ("3.2.3", True, POSSIBLE),
    ],
)
def test_unclean_election_loses_what_only_the_leader_had(configure, version, unclean, lost):
    # The ISR shrinks to the leader, which acks alone and dies.
    configuration = configure(
        kafka_version=version,
        min_insync_replicas=1,
        max_in_flight=1,
        unclean_leader_election=unclean,
    )
    assert likelihood(configuration, UNBOUNDED_DEMO)["lost"] == lost


def power_loss(targets=LEADER, **changes):
    return replace(kill(targets, **changes), fault="power_loss", effects=(POWER_LOSS,))


@pytest.mark.parametrize(("ending", "lost"), [(kill, IMPOSSIBLE), (power_loss, POSSIBLE)])
def test_only_a_power_loss_takes_what_a_sole_replica_appended(configure, ending, lost):
    configuration = configure(replication_factor=1, min_insync_replicas=1)
    assert likelihood(configuration, (ending(heal_when=()),))["lost"] == lost


@pytest.mark.parametrize("version", ["4.0.0", "4.1.1"])
def test_a_last_known_leader_that_was_elected_while_dead_leads_once_it_returns(configure, version):
    # 4.0.0 elects it while it is fenced (KAFKA-19522): its old incarnation never led in that epoch.
    schedule = (
        kill(frozenset({1}), heal_when=(FaultEvent(fault=2, event="began"),)),
        kill(frozenset({0}), when=(IsrIs(members=frozenset({0})),), heal_when=()),
        kill(frozenset({0}), when=(FaultEvent(fault=1, event="ended"),), heal_when=()),
    )
    two = {"replication_factor": 2, "min_insync_replicas": 2, "elr": True}
    found = predict(configure(kafka_version=version, **two, **PLAIN), schedule)
    assert found.complete
    assert found.likelihood["lost"] is IMPOSSIBLE
    assert found.availability[-1].writable is Ability.CAN


def test_a_leader_does_not_follow_itself_in_a_trace(configure):
    configuration = configure(replication_factor=1, min_insync_replicas=1)
    trace = predict(configuration, (power_loss(heal_when=()),)).trace
    assert trace[-1].endswith("A held it before the disk of A lost it.")


def test_a_trace_tells_of_several_replicas_in_the_plural(configure):
    trace = predict(configure(min_insync_replicas=3), (power_loss(ALL, heal_when=()),)).trace
    told = "A, B and C lose power, and the ends of the logs that were not fsynced."
    assert any(sentence.endswith(told) for sentence in trace)
    assert any("A, B and C are started again." in sentence for sentence in trace)


def test_a_trace_tells_that_the_last_known_leader_is_elected(configure):
    configuration = configure(replication_factor=1, min_insync_replicas=1)
    trace = predict(configuration, (power_loss(heal_when=()),)).trace
    how = "A is elected as an eligible leader replica or the last known leader (KIP-966)"
    assert any(how in sentence for sentence in trace)


@pytest.mark.parametrize(
    ("version", "least", "lost"),
    [
        ("3.9.1", 1, POSSIBLE),
        ("4.3.1", 1, POSSIBLE),
        ("3.9.1", 2, POSSIBLE),  # the last replica standing
        ("4.3.1", 2, IMPOSSIBLE),  # the others are eligible (KIP-966)
    ],
)
def test_power_is_lost_by_the_last_of_the_isr(configure, version, least, lost):
    configuration = configure(kafka_version=version, min_insync_replicas=least, max_in_flight=1)
    schedule = (CUT, power_loss(when=(MORE_ACKED,)))
    assert likelihood(configuration, schedule)["lost"] == lost
    assert likelihood(configuration, (power_loss(),))["lost"] == IMPOSSIBLE


@pytest.mark.parametrize(
    ("version", "stop", "lost"),
    [
        ("3.9.1", KILL, POSSIBLE),
        ("3.9.1", SHUTDOWN, POSSIBLE),
        ("4.3.1", KILL, POSSIBLE),
        ("4.3.1", SHUTDOWN, IMPOSSIBLE),
    ],
)
def test_followers_that_stopped_cleanly_stay_eligible(configure, version, stop, lost):
    # KIP-966: they are elected in place of a last leader that lost power, but not after a crash.
    configuration = configure(kafka_version=version, max_in_flight=1)
    followers = injection("stop", stop, targets=FOLLOWERS, when=(ACKED,))
    last = power_loss(when=(isr(1),), heal_when=(), heal_or_after=None)
    assert likelihood(configuration, (followers, last))["lost"] == lost


def test_one_replica_keeps_what_it_appended(configure):
    configuration = configure(acks="1", replication_factor=1, min_insync_replicas=1)
    assert likelihood(configuration, KILL_LEADER)["lost"] == IMPOSSIBLE


def test_without_retries_nothing_is_duplicated(configure):
    assert likelihood(configure(), KILL_LEADER)["duplicated"] == POSSIBLE
    assert likelihood(configure(retries=0), KILL_LEADER)["duplicated"] == IMPOSSIBLE


def test_more_in_sync_replicas_than_there_are_can_never_ack(configure):
    # Up to 3.6: from 3.7 on the minimum is capped at the replicas (KAFKA-15583).
    few = {"replication_factor": 1, "max_in_flight": 1}
    never = predict(configure(kafka_version="3.6.2", **few), KILL_LEADER)
    assert never.likelihood["duplicated"] == IMPOSSIBLE
    assert "no way leads to a final log with" in never.reasons["duplicated"]
    assert (
        likelihood(configure(kafka_version="3.7.0", **few), KILL_LEADER)["duplicated"] == POSSIBLE
    )


@pytest.mark.parametrize(("after", "lost"), [(20.0, CERTAIN), (40.0, POSSIBLE), (60.0, IMPOSSIBLE)])
def test_the_isr_shrinks_when_there_is_time(configure, after, lost):
    # 30 to 45 s after the cut the leader is the only in-sync replica, and is waited for.
    schedule = (
        replace(CUT, when=(ACKED,)),
        kill(when=(Elapsed(seconds=after), MORE_ACKED), or_after=after),
    )
    configuration = configure(acks="1", kafka_version="3.9.1")
    assert likelihood(configuration, schedule)["lost"] == lost


@pytest.mark.parametrize(
    ("lasts", "begins", "lost"),
    [
        (22.0, 15.0, POSSIBLE),  # without a fetch for 33 s
        (7.0, 2.0, IMPOSSIBLE),
        (10.0, 60.0, IMPOSSIBLE),  # the first cut is over when the second begins
    ],
)
def test_the_isr_shrinks_by_two_cuts_that_overlap(configure, lasts, begins, lost):
    schedule = (
        replace(CUT, when=(), heal_or_after=lasts),
        replace(CUT, when=(Elapsed(seconds=begins),), heal_or_after=lasts),
        injection(
            "power_loss", POWER_LOSS, targets=LEADER, when=(Elapsed(seconds=min(lasts, 18)),)
        ),
    )
    configuration = configure(
        replication_factor=2, min_insync_replicas=1, kafka_version="3.9.1", idempotence=True
    )
    assert likelihood(configuration, schedule)["lost"] == lost


@pytest.mark.parametrize("settings", WAYS)
@pytest.mark.parametrize("schedule", [NO_FAULT, DEMO, KILL_LEADER, RESTART_LEADER])
def test_nothing_is_made_up(configure, settings, schedule):
    seen = likelihood(configure(**settings), schedule)
    assert (seen["phantom"], seen["corrupt"]) == (IMPOSSIBLE, IMPOSSIBLE)


@pytest.mark.parametrize(
    ("schedule", "settings", "inconsistent"),
    [
        # An acked record is removed, and its offset given to the next.
        (DEMO, ONE, POSSIBLE),
        (KILL_LEADER, ONE, POSSIBLE),
        # No offset is acked, so none can be contradicted, whatever is lost.
        (KILL_LEADER, ZERO, IMPOSSIBLE),
        # Duplicates alone move no record: what was acked with acks=all stays where it is.
        (KILL_LEADER, PLAIN, IMPOSSIBLE),
        (KILL_LEADER, IDEMPOTENT, IMPOSSIBLE),
        (KILL_FOLLOWERS, ONE, IMPOSSIBLE),
    ],
)
def test_an_acked_offset_is_contradicted_only_where_a_record_is_removed(
    configure, schedule, settings, inconsistent
):
    seen = likelihood(configure(**settings), schedule)
    assert seen["inconsistent"] == inconsistent
