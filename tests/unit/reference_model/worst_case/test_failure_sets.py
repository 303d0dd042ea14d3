"""Which failures lose an acked record: each known loss beside a configuration that survives it."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest

from ackproof_model.configuration import Profile
from ackproof_model.perturbations import Counts
from ackproof_model.worst_case.failure_sets import (
    CLEAN_RESTART,
    CONTROLLERS,
    CRASH,
    DISK_REPLACED,
    EVENTS,
    LAG,
    LEADER_MOVE,
    LOST_SESSION,
    POWER_LOSS,
    RACK,
    REASSIGNMENT,
    RECREATED,
    Exposed,
    Failures,
    FailureSets,
    failure_sets,
    perturbations,
)
from ackproof_model.worst_case.minima import Question
from ackproof_model.worst_case.story import story


def exposed(version: str = "3.9.1", *, acks: str = "all", **changes: object) -> Exposed:
    """Three replicas with min.insync.replicas=2 and without unclean election, but for changes."""
    question = Question(
        kafka_version=version,
        elr=Profile.of(version).elr,
        acks="all" if acks == "all" else "1",
        replicas=3,
        min_insync_replicas=2,
        unclean=False,
    )
    own = {field.name for field in fields(Exposed)} & changes.keys()
    surroundings = {key: changes.pop(key) for key in own}
    return Exposed(
        question=replace(question, **changes),
        acks_0=acks == "0",
        **surroundings,
    )


def losing(found: FailureSets) -> set[Failures]:
    return {one.failures for one in found.losing}


B5 = exposed("4.3.1", min_insync_replicas=1)
B7 = exposed("4.3.1")


@pytest.mark.parametrize(
    ("case", "failures", "twin"),
    [
        pytest.param(exposed(acks="0"), (CRASH,), exposed(), id="B1"),
        pytest.param(exposed(acks="1"), (CRASH,), exposed(), id="B2"),
        pytest.param(exposed(acks="1"), (LOST_SESSION,), exposed(), id="B3"),
        pytest.param(exposed(acks="1"), (LEADER_MOVE,), exposed(), id="planned leader move"),
        pytest.param(exposed(unclean=True), (LAG, CRASH), exposed(), id="B4"),
        pytest.param(B5, (LAG, POWER_LOSS), B7, id="B5"),
        pytest.param(
            exposed("0.10.2.2", min_insync_replicas=1),
            (LAG, POWER_LOSS),
            replace(B7, flushed=True),
            id="B5 on 0.10.2",
        ),
        pytest.param(exposed(), (LAG, POWER_LOSS), B7, id="B6"),
        pytest.param(B7, (LAG, CRASH, POWER_LOSS), replace(B7, flushed=True), id="B7"),
        pytest.param(exposed(), (POWER_LOSS,) * 3, exposed(flushed=True), id="B9"),
        pytest.param(exposed("0.10.2.2"), (CRASH, CRASH), exposed("2.6.2"), id="B10"),
        pytest.param(B5, (LAG, DISK_REPLACED), B7, id="B34"),
        pytest.param(
            exposed(replicas=1, min_insync_replicas=1), (POWER_LOSS,), exposed(), id="one replica"
        ),
        pytest.param(exposed(racks=1), (RACK,), exposed(racks=3), id="one rack"),
    ],
)
def test_known_losses_are_smallest_sets_and_their_safe_twins_survive_them(
    case: Exposed, failures: Failures, twin: Exposed
) -> None:
    assert failures in losing(failure_sets(case))
    assert failures not in losing(failure_sets(twin))
    assert failure_sets(twin).keeps(failures)


@pytest.mark.parametrize("version", ["2.6.2", "2.8.2", "3.6.2", "3.9.1", "4.3.1"])
def test_the_defaults_and_the_recommended_configuration_are_decided(version: str) -> None:
    zookeeper = Profile.of(version).zookeeper
    for one in (exposed(version), exposed(version, min_insync_replicas=1)):
        undecided = {*failure_sets(one).undecided}
        undecided -= {failures for failures in undecided if CONTROLLERS in failures}
        missed = {failures for failures in undecided if LEADER_MOVE in failures}
        assert {*map(len, missed)} == ({3} if zookeeper else set())
        moved = {failures for failures in undecided - missed if REASSIGNMENT in failures}
        assert undecided == missed | moved
        # Moves were searched for the recommended configuration: only sets of three are open.
        searched = not zookeeper and one.question.min_insync_replicas == 2
        assert not searched or all(len(failures) == 3 for failures in moved), moved


@pytest.mark.parametrize("replicas", [2, 3])
def test_a_leader_that_may_miss_an_epoch_is_not_called_safe(replicas: int) -> None:
    failures = (LEADER_MOVE, LEADER_MOVE, CRASH)
    of_kraft = failure_sets(exposed(replicas=replicas, min_insync_replicas=2))
    assert of_kraft.keeps(failures) is (replicas == 2)
    assert (failures in losing(of_kraft)) is (replicas == 3)
    assert of_kraft.keeps((CRASH, LAG, LEADER_MOVE))
    with_zookeeper = failure_sets(exposed("2.8.2", replicas=replicas, min_insync_replicas=2))
    assert (failures in with_zookeeper.undecided) is (replicas == 3)


def test_elections_that_come_by_themselves_count_where_the_balancer_is_on() -> None:
    crashes, restarts = (CRASH,) * 3, (CLEAN_RESTART,) * 3
    asked, balanced = (failure_sets(exposed(balanced=one)) for one in (False, True))
    assert asked.keeps(crashes)
    assert {crashes, restarts} <= {*losing(balanced)}
    assert balanced.keeps((CRASH, CRASH))
    assert all(one.rare for one in balanced.losing if one.failures == crashes)


def test_a_move_away_and_back_of_a_lagging_partition_loses_by_the_rules_of_the_version() -> None:
    twice = (REASSIGNMENT, REASSIGNMENT, LAG, CRASH)
    assert twice in by_moves(exposed("4.4.0"))
    assert by_moves(exposed("4.1.2")) == {
        (CLEAN_RESTART, *(REASSIGNMENT,) * 3, LAG),
        (REASSIGNMENT, *twice),
        (*(REASSIGNMENT,) * 3, LAG, LOST_SESSION),
    }
    for one in (exposed("4.4.0", min_insync_replicas=1), exposed("4.4.0", elr=False)):
        assert not by_moves(one)
    assert failure_sets(exposed("3.9.1")).keeps(twice)


def by_moves(exposed: Exposed) -> set[Failures]:
    """Return the losing sets in which a partition is moved away and back."""
    every = losing(failure_sets(exposed))
    return {one for one in every if one.count(REASSIGNMENT) > 1 and LAG in one}


@pytest.mark.parametrize("lost", [POWER_LOSS, DISK_REPLACED])
def test_before_kip_903_a_move_and_a_lost_log_lose_by_the_stored_search(lost: str) -> None:
    failures = (REASSIGNMENT, lost)
    old = exposed("3.4.1")
    (loss,) = (one for one in failure_sets(old).losing if one.failures == failures)
    assert loss.found is not None
    told = story(old.question, loss.found).sentences
    assert any("The replicas are moved to" in one for one in told)
    assert told[-1] == "D leads without the acked record: it is lost."
    later = failure_sets(exposed("3.5.2"))
    assert later.keeps(failures)
    assert failures not in losing(later)


def test_a_move_of_the_leader_loses_what_it_acked_alone() -> None:
    for replicas in (1, 3):
        alone = exposed(replicas=replicas, min_insync_replicas=1, acks="1", acks_1=True)
        assert (REASSIGNMENT,) in losing(failure_sets(alone))
        assert failure_sets(exposed(replicas=replicas, min_insync_replicas=1)).keeps(
            (REASSIGNMENT,)
        )


def test_the_recommended_configuration_survives_lag_and_a_power_loss() -> None:
    found = failure_sets(B7)
    assert found.keeps((LAG, POWER_LOSS))
    assert found.keeps((CRASH, CRASH, CRASH))
    assert found.keeps((CLEAN_RESTART,) * 3)
    assert not found.keeps((LAG, CRASH, POWER_LOSS))
    assert not found.keeps((CONTROLLERS, POWER_LOSS)), "restarted controllers have no sessions"


def test_no_set_is_in_two_of_the_answers_and_the_losing_ones_are_an_antichain() -> None:
    for one in (exposed(), B5, B7, exposed(acks="1"), exposed(unclean=True)):
        found = failure_sets(one)
        assert not any(map(found.keeps, losing(found)))
        for failures in losing(found):
            others = losing(found) - {failures}
            assert not any(_inside(other, failures) for other in others)


def _inside(smaller: Failures, larger: Failures) -> bool:
    return all(smaller.count(one) <= larger.count(one) for one in smaller)


def test_every_replica_can_lose_its_disk_even_if_records_are_flushed() -> None:
    assert (DISK_REPLACED,) * 3 in losing(failure_sets(exposed(flushed=True)))


def test_only_the_disk_of_a_single_replica_loses_in_every_order() -> None:
    [alone] = [
        one
        for one in failure_sets(exposed(replicas=1, min_insync_replicas=1)).losing
        if one.failures == (DISK_REPLACED,)
    ]
    assert alone.certain
    assert not any(one.certain for one in failure_sets(exposed(acks="1")).losing)


def test_controllers_that_are_also_brokers_leave_more_undecided() -> None:
    apart, both = failure_sets(B7), failure_sets(replace(B7, combined=3))
    assert apart.keeps((CLEAN_RESTART, POWER_LOSS))
    assert both.keeps((POWER_LOSS,)), "two of three controllers stay"
    assert not both.keeps((CLEAN_RESTART, POWER_LOSS))


@pytest.mark.parametrize(
    ("one", "failures", "expected"),
    [
        (exposed(), (LAG,), Counts(shrinks=math.inf)),
        (exposed("3.4.1"), (LAG, LAG), Counts(shrinks=4)),
        (exposed(), (CRASH, DISK_REPLACED), Counts(kills=1, power_losses=1)),
        (exposed(flushed=True), (POWER_LOSS,), Counts(kills=1)),
        (exposed(flushed=True), (DISK_REPLACED,), Counts(power_losses=1)),
        (exposed(racks=2), (RACK,), Counts(power_losses=2)),
        (exposed(), (CONTROLLERS,), Counts()),
    ],
)
def test_failures_are_perturbations(one: Exposed, failures: Failures, expected: Counts) -> None:
    assert perturbations(one, failures) == expected


def test_a_story_names_who_leads_and_which_records_are_at_risk() -> None:
    [found] = [one for one in failure_sets(B5).losing if one.failures == (LAG, POWER_LOSS)]
    assert found.found is not None
    told = story(B5.question, found.found)
    assert told.at_risk == "records that were acked while the leader was alone in the ISR"
    assert told.sentences[0].startswith("Broker A leads; B and C are its followers")
    assert any("loses power" in sentence for sentence in told.sentences)
    assert told.sentences[-1] == "A leads without the acked record: it is lost."
    replaced = story(B5.question, found.found, disks=1)
    assert any("disk is replaced" in sentence for sentence in replaced.sentences)


@pytest.mark.parametrize("replicas", [4, 5, 7])
def test_more_than_three_replicas_lose_what_three_of_them_lose(replicas: int) -> None:
    found = failure_sets(exposed(replicas=replicas))
    assert (LAG, POWER_LOSS) in losing(found)
    assert (POWER_LOSS,) * replicas in losing(found)
    assert found.keeps((CRASH, LAG, LOST_SESSION))
    assert not found.keeps((POWER_LOSS, POWER_LOSS)), "not searched"
    assert (LAG, POWER_LOSS) not in losing(failure_sets(exposed("4.3.1", replicas=replicas)))
    assert (CRASH,) in losing(failure_sets(exposed(acks="1", replicas=replicas)))
    [loss] = [one for one in found.losing if one.failures == (LAG, POWER_LOSS)]
    assert loss.found is not None
    told = story(exposed(replicas=replicas).question, loss.found)
    assert told.sentences[1].startswith(f"The {replicas - 3} other followers fall behind")


@pytest.mark.parametrize("event", EVENTS)
def test_each_event_changes_the_cluster_or_has_a_question_of_its_own(event: str) -> None:
    assert (perturbations(exposed(), (event,)) == Counts()) is (event == CONTROLLERS)


def test_an_event_without_perturbations_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = (("flood",), ("crash", "flood"))
    monkeypatch.setattr("ackproof_model.worst_case.failure_sets._sets", lambda *_, **__: sets)
    with pytest.raises(KeyError, match="flood"):
        failure_sets(exposed(racks=2))


@pytest.mark.parametrize(
    ("replicas", "certain"), [(1, True), (3, False), (4, False)], ids="{} replicas".format
)
def test_recreated_containers_without_a_volume_empty_every_log(
    replicas: int, certain: bool
) -> None:
    """One after the other, as in a rolling update; nothing is certain if replicas catch up."""
    found = failure_sets(
        exposed(
            replicas=replicas,
            min_insync_replicas=min(replicas, 2),
            recreates=True,
            emptied=frozenset({RECREATED}),
        )
    )
    every = {one.failures: one for one in found.losing}
    assert every[(RECREATED,) * replicas].certain is certain
    assert (CRASH,) not in every


def test_a_recreated_container_with_a_volume_is_a_clean_restart() -> None:
    asked = exposed(recreates=True)
    assert perturbations(asked, (RECREATED,)) == perturbations(asked, (CLEAN_RESTART,))
    assert failure_sets(asked).keeps((RECREATED,))
    assert all(RECREATED not in one for one in failure_sets(exposed()).survived)


def test_a_crash_may_empty_a_log_too() -> None:
    emptied = frozenset({RECREATED, CRASH, CLEAN_RESTART})
    asked = exposed(replicas=1, min_insync_replicas=1, recreates=True, emptied=emptied)
    lost = losing(failure_sets(asked))
    assert {(CRASH,), (CLEAN_RESTART,), (RECREATED,)} <= lost
    assert (CRASH,) not in losing(failure_sets(exposed(replicas=1, min_insync_replicas=1)))
