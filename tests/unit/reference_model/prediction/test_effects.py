"""What the effects of faults lead to: cases that lose records, beside cases that do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ackproof_model import (
    Ability,
    AnyOf,
    Configures,
    Cuts,
    Elapsed,
    Elects,
    Ends,
    FaultEvent,
    IsrIs,
    LeaderChanged,
    LeaderIs,
    Likelihood,
    QuorumLost,
    Stalls,
    draw,
    predict,
)
from ackproof_model.prediction.model import Model
from ackproof_model.prediction.narrative import narrate
from ackproof_model.prediction.search import explore
from ackproof_model.replication.state import NOBODY, initial
from unit.reference_model.schedules import (
    ACKED,
    CUT,
    FOLLOWERS,
    KILL,
    LEADER,
    MORE_ACKED,
    POWER_LOSS,
    SHUTDOWN,
    injection,
    isr,
)

IMPOSSIBLE, POSSIBLE, CERTAIN = Likelihood
CAN, CANNOT, EITHER = Ability

IDEMPOTENT = {"idempotence": True}
#: Two replicas: with three, the requests to a stalled leader have too many orders.
TWO = {"replication_factor": 2, "min_insync_replicas": 1, "max_in_flight": 1}
_UNCLEAN = Configures(topic="orders", key="unclean.leader.election.enable", value="true")
WIPED = Ends(log="empty")
ALONE = (CUT, injection("none", when=(isr(1),)))


def replica(*numbers):
    return frozenset(numbers)


def told(configuration, schedule):
    prediction = predict(configuration, schedule)
    assert prediction.complete
    return prediction


def lost(configuration, schedule):
    return told(configuration, schedule).likelihood["lost"]


def zombie(seconds):
    """B3: the leader is cut off from brokers and controllers, and clients still reach it."""
    cuts = Cuts(channels=("replication",)), Cuts(channels=("controllers",))
    return (injection("split", *cuts, targets=LEADER, when=(ACKED,), heal_or_after=seconds),)


def pause(seconds):
    stall = Stalls()
    return (injection("pause", stall, targets=LEADER, when=(ACKED,), heal_or_after=seconds),)


@pytest.mark.parametrize(
    ("schedule", "settings", "expected"),
    [
        (zombie(60.0), {"acks": "1"}, POSSIBLE),
        pytest.param(zombie(60.0), IDEMPOTENT, IMPOSSIBLE, marks=pytest.mark.slow),
        (zombie(1.0), {"acks": "1"}, IMPOSSIBLE),  # the session has not ended
        (pause(60.0), TWO | {"acks": "1"}, POSSIBLE),
        (pause(60.0), TWO | IDEMPOTENT, IMPOSSIBLE),
        (pause(1.0), TWO | {"acks": "1"}, IMPOSSIBLE),
    ],
)
def test_a_leader_of_which_the_controllers_do_not_hear_is_deposed(
    configure, schedule, settings, expected
):
    assert lost(configure(**settings), schedule) == expected


def test_a_zombie_leader_is_told_step_by_step(configure):
    prediction = told(configure(acks="1"), zombie(60.0))
    assert any("A is cut off from the controllers." in sentence for sentence in prediction.trace)
    assert any("The controller fences A" in sentence for sentence in prediction.trace)
    assert prediction.trace[-1].startswith("The final log is that of B. Acked and lost")
    assert len(draw(prediction.diagram)) == len(prediction.trace)


@pytest.mark.parametrize(("stalls", "expected"), [(True, CERTAIN), (False, POSSIBLE)])
def test_stalled_followers_lose_what_the_leader_acked_alone(configure, stalls, expected):
    # B2': both followers are paused, and the leader dies before they are fenced.
    effects = (Stalls(),) if stalls else ()
    schedule = (
        injection("pause", *effects, targets=FOLLOWERS, when=(ACKED,)),
        injection("kill", KILL, targets=LEADER, when=(MORE_ACKED,), or_after=2.0),
    )
    found = told(configure(acks="1"), schedule).likelihood
    assert found["lost"] == expected
    assert found["read-then-gone"] == IMPOSSIBLE  # it was above the high watermark
    assert lost(configure(**IDEMPOTENT), schedule) == IMPOSSIBLE


DEAD = (*ALONE, injection("kill", KILL, targets=LEADER, when=(MORE_ACKED,)))
LEADERLESS = (LeaderIs(replica=None),)


def election(*, unclean):
    return Elects(topic="orders", partition=None, unclean=unclean)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ((), IMPOSSIBLE),
        (
            (
                injection(
                    "elect", Elects(topic="orders", partition=None, unclean=True), when=LEADERLESS
                ),
            ),
            CERTAIN,
        ),
        (
            (
                injection(
                    "elect", Elects(topic="orders", partition=None, unclean=False), when=LEADERLESS
                ),
            ),
            IMPOSSIBLE,
        ),
        (
            (
                injection(
                    "alter_config",
                    _UNCLEAN,
                    when=LEADERLESS,
                    heal_or_after=600.0,
                ),
            ),
            POSSIBLE,  # the controller looks at intervals
        ),
    ],
)
def test_only_an_unclean_election_passes_over_the_last_replica(configure, after, expected):
    configuration = configure(min_insync_replicas=1, **IDEMPOTENT)
    prediction = told(configuration, (*DEAD, *after))
    assert prediction.likelihood["lost"] == expected
    gone = IMPOSSIBLE if expected is IMPOSSIBLE else POSSIBLE
    assert prediction.likelihood["read-then-gone"] == gone


@pytest.mark.parametrize("moves", [True, False])
def test_a_leader_that_misses_an_epoch_acks_what_a_follower_has_truncated(configure, moves):
    elected = (injection("elect", election(unclean=False)),) if moves else ()
    schedule = (
        *elected,
        injection("restart", SHUTDOWN, targets=replica(0)),
        injection("kill", KILL, targets=replica(1), heal_when=(LeaderChanged(),)),
    )
    controller, (*_, follower) = initial(3)
    follower = follower._replace(leader=1, epoch=1)
    leader = follower._replace(isr=controller.isr, remote=(0, NOBODY, 0))
    start = controller._replace(leader=1, epoch=1), (follower, leader, follower)
    configuration = configure(kafka_version="4.3.1", retries=0, max_in_flight=1)
    model = Model(configuration, schedule, start=start)
    found = explore(model, max_states=150_000)
    assert found.complete
    assert found.final
    assert ("lost" in found.first) is moves
    if moves:
        way = narrate(model, found.trace(found.first["lost"]))
        assert "B learns that it leads in epoch 3; the last epoch that it knew was 1." in way


@pytest.mark.parametrize(
    ("effect", "version", "expected"),
    [
        (Elects(topic="orders", partition=None, unclean=True), "3.8.1", CERTAIN),
        (_UNCLEAN, "3.8.1", IMPOSSIBLE),  # KAFKA-12670
        (_UNCLEAN, "3.9.1", POSSIBLE),
    ],
)
def test_a_version_that_ignores_the_setting_elects_uncleanly_by_request(
    configure, effect, version, expected
):
    configuration = configure(min_insync_replicas=1, kafka_version=version, **IDEMPOTENT)
    asked = injection("operator", effect, when=LEADERLESS, heal_or_after=600.0)
    assert lost(configuration, (*DEAD, asked)) == expected


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ((injection("kill", KILL, targets=LEADER, when=(MORE_ACKED,)),), IMPOSSIBLE),
        ((injection("wipe", WIPED, targets=LEADER, when=(MORE_ACKED,)),), CERTAIN),  # B5
    ],
)
def test_the_sole_replica_loses_its_log(configure, last, expected):
    configuration = configure(min_insync_replicas=1, **IDEMPOTENT)
    assert lost(configuration, (*ALONE, *last)) == expected


def elr_limit(stop):
    """B7: all replicas go one after the other, the last one without its unflushed records."""
    return (
        injection("kill", KILL, targets=replica(1), when=(ACKED,)),
        injection("stop", stop, targets=replica(2), when=(IsrIs(members=replica(0, 2)),)),
        injection("power_loss", POWER_LOSS, targets=replica(0), when=(IsrIs(members=replica(0)),)),
    )


@pytest.mark.parametrize(
    ("version", "stop", "expected"),
    [("4.3.1", KILL, POSSIBLE), ("4.3.1", SHUTDOWN, IMPOSSIBLE), ("3.9.1", SHUTDOWN, POSSIBLE)],
)
def test_the_limit_of_eligible_leader_replicas(configure, version, stop, expected):
    prediction = told(configure(kafka_version=version, **IDEMPOTENT), elr_limit(stop))
    assert prediction.likelihood["lost"] == expected
    assert prediction.states < 40_000


def test_without_a_quorum_nobody_is_elected(configure):
    kill = injection("kill", KILL, targets=LEADER, heal_or_after=60.0)
    without = told(configure(), (injection("none", when=(ACKED,)), kill))
    quorum = injection("stop controllers", QuorumLost(), when=(ACKED,))
    lacking = told(configure(), (quorum, kill))
    part = "after fault 2 (kill) begins"
    (elected,) = [one for one in without.availability if one.part == part]
    (headless,) = [one for one in lacking.availability if one.part == part]
    assert (elected.readable, elected.writable) == (CAN, CAN)
    assert (headless.readable, headless.writable) == (CANNOT, CANNOT)
    assert lacking.likelihood["lost"] == IMPOSSIBLE


@pytest.mark.parametrize(("direction", "twice"), [("to_peers", POSSIBLE), ("from_peers", POSSIBLE)])
def test_clients_that_a_leader_does_not_answer_send_again(configure, direction, twice):
    cut = Cuts(channels=("clients",), direction=direction)
    schedule = (injection("partition", cut, targets=LEADER, when=(ACKED,), heal_or_after=60.0),)
    prediction = told(configure(max_in_flight=1), schedule)
    assert prediction.likelihood["duplicated"] == twice
    assert prediction.likelihood["lost"] == IMPOSSIBLE
    idempotent = told(configure(max_in_flight=1, **IDEMPOTENT), schedule)
    assert idempotent.likelihood["duplicated"] == IMPOSSIBLE


def recovery(stop, back):
    """Claims 37 to 39: with 2 down, 0 and then 1 end; some come back."""
    gone = {"heal_when": LEADERLESS}
    late = {"heal_when": (*LEADERLESS, FaultEvent(fault=2, event="began"))}
    return (
        injection("kill 2", KILL, targets=replica(2), when=(ACKED,)),
        injection(
            "stop 0",
            stop,
            targets=replica(0),
            when=(IsrIs(members=replica(0, 1)),),
            **(late if 0 in back else {}),
        ),
        injection(
            "stop 1",
            stop,
            targets=replica(1),
            when=(IsrIs(members=replica(1)),),
            **(gone if 1 in back else {}),
        ),
        injection("none", or_after=60.0, heal_or_after=60.0),
    )


def during(prediction, start):
    return {
        one.part: (one.readable, one.writable)
        for one in prediction.availability
        if one.part.startswith(start)
    }


@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_one_replica_serves_reads_and_the_second_restores_writes(configure, version):
    # Claims 35 and 36.
    schedule = (
        injection("kill 2", KILL, targets=replica(2), when=(ACKED,)),
        injection(
            "kill 0",
            KILL,
            targets=replica(0),
            when=(IsrIs(members=replica(0, 1)),),
            heal_when=(FaultEvent(fault=2, event="began"),),
        ),
        injection("none", or_after=60.0),
        injection("none", when=(FaultEvent(fault=1, event="recovered"),), heal_or_after=60.0),
    )
    found = during(told(configure(kafka_version=version, **IDEMPOTENT), schedule), "after")
    assert found["after fault 2 (kill 0) begins"] == (CAN, CANNOT)
    assert found["after fault 4 (none) begins, 2 healed"] == (CAN, CAN)


@pytest.mark.parametrize(
    ("version", "stop", "back", "expected"),
    [
        ("3.9.1", KILL, {0}, CANNOT),  # claim 38
        ("4.3.1", KILL, {0}, CANNOT),
        pytest.param("3.9.1", SHUTDOWN, {0}, CANNOT, marks=pytest.mark.slow),
        ("4.3.1", SHUTDOWN, {0}, CAN),  # eligible
        ("3.9.1", KILL, {1}, CAN),  # claim 39: the last leader
        ("4.3.1", KILL, {1}, CANNOT),
        pytest.param("3.9.1", SHUTDOWN, {1}, CAN, marks=pytest.mark.slow),
        pytest.param("4.3.1", SHUTDOWN, {1}, CAN, marks=pytest.mark.slow),
    ],
)
def test_who_must_come_back_for_the_partition_to_be_read(configure, version, stop, back, expected):
    prediction = told(configure(kafka_version=version, **IDEMPOTENT), recovery(stop, back))
    healed = ", ".join(str(number + 2) for number in sorted(back))
    parts = during(prediction, "after fault 4")
    assert parts[f"after fault 4 (none) begins, {healed} healed"][0] == expected


@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
@pytest.mark.parametrize("back", [0, 1])
def test_of_two_that_die_at_once_either_may_be_waited_for(configure, version, back):
    # Claim 40: the controller fences one before the other.
    schedule = (
        injection("kill 2", KILL, targets=replica(2), when=(ACKED,)),
        injection("kill", KILL, targets=replica(1 - back), when=(IsrIs(members=replica(0, 1)),)),
        injection("kill", KILL, targets=replica(back), heal_when=LEADERLESS),
        injection("none", or_after=60.0, heal_or_after=60.0),
    )
    prediction = told(configure(kafka_version=version, **IDEMPOTENT), schedule)
    expected = EITHER if version == "3.9.1" else CANNOT
    assert (
        during(prediction, "after fault 4")["after fault 4 (none) begins, 3 healed"][0] == expected
    )


def test_a_condition_may_have_alternatives(configure):
    either = AnyOf(alternatives=(LeaderChanged(), Elapsed(seconds=20.0)))
    kill = injection("kill", KILL, targets=LEADER, when=(ACKED,))
    written = replace(kill, heal_when=(either,))
    meant = replace(kill, heal_when=(LeaderChanged(),), heal_or_after=20.0)
    configuration = configure(acks="1")
    assert told(configuration, (written,)).states == told(configuration, (meant,)).states


def test_the_method_is_one_sentence(configure):
    exact = told(configure(), DEAD[:1]).method
    assert exact.startswith("Exact search of the schedule: ")
    assert exact.count(". ") == 0
    assert predict(configure(), DEAD, max_states=50).method.startswith("Incomplete search")
