from __future__ import annotations

import math
import random
import re
from dataclasses import replace
from typing import Any

import pytest
from search_minima import questions, search_minima, undecided

from ackproof_model import Acks, Configuration, Likelihood, Prediction
from ackproof_model.adversary import AdversaryModel, Budgets, search
from ackproof_model.adversary.state import initial
from ackproof_model.adversary.successors import lost, successors
from ackproof_model.perturbations import NOTHING, Counts, WorstCase
from ackproof_model.worst_case.answer import keeps_everything, narrate, predict, sentence
from ackproof_model.worst_case.minima import Question, stored

PERTURBATIONS = {"kill", "lose power", "stop", "shrink", "cut off"}
#: No log loses records by itself.
KEEPING = Budgets(kills=7, clean_stops=7, shrinks=7, fencings=7, in_all=7)


def configuration(*, acks: Acks = "all", minimum: int = 2, **changes: object) -> Configuration:
    given = Configuration(
        kafka_version="4.3.1",
        acks=acks,
        idempotence=False,
        retries=3,
        max_in_flight=5,
        replication_factor=3,
        min_insync_replicas=minimum,
    )
    return replace(given, **changes)


def question(version: str = "3.9.1", **changes: object) -> Question:
    given = Question(
        kafka_version=version,
        elr=False,
        acks="all",
        replicas=2,
        min_insync_replicas=1,
        unclean=False,
    )
    return replace(given, **changes)


def answered(given: Configuration, worst_case: WorstCase) -> Prediction:
    return predict(given, worst_case, "the schedule is not searched")


def answers(found: Prediction, likelihood: Likelihood) -> set[str]:
    return {anomaly for anomaly, one in found.likelihood.items() if one is likelihood}


@pytest.mark.parametrize(
    ("changes", "counts", "impossible"),
    [
        ({}, Counts(fencings=1, shrinks=1), True),
        ({}, Counts(kills=9, clean_stops=9, fencings=math.inf, shrinks=math.inf), True),
        ({"min_insync_replicas": 1}, Counts(fencings=1, shrinks=1), True),
        ({"kafka_version": "2.6.2"}, Counts(fencings=1, shrinks=1), True),
        ({"acks": "1"}, Counts(fencings=1, shrinks=1), False),
        ({"unclean_leader_election": True}, Counts(fencings=1, shrinks=1), False),
        ({}, Counts(fencings=1, shrinks=1, power_losses=1), False),
        ({"kafka_version": "1.1.1"}, Counts(fencings=1, shrinks=1), False),
    ],
)
def test_replicas_that_move_keep_what_all_in_sync_replicas_have(
    changes: dict[str, object], counts: Counts, impossible: bool
) -> None:
    found = answered(replace(configuration(), **changes), WorstCase(counts=counts, moves=1))
    assert (found.likelihood["lost"] is Likelihood.IMPOSSIBLE) is impossible
    assert (found.likelihood["inconsistent"] is Likelihood.IMPOSSIBLE) is impossible


@pytest.mark.parametrize(
    ("worst_case", "elr", "impossible"),
    [
        (WorstCase(moves=2), True, False),
        (WorstCase(moves=1).plus(WorstCase(moves=1)), True, False),
        (WorstCase(moves=1).times(math.inf), True, False),
        (WorstCase(moves=1).either(WorstCase(moves=1)), True, True),
        (WorstCase(moves=math.inf), False, True),
    ],
)
def test_with_elr_replicas_that_move_again_may_be_elected_with_an_empty_log(
    worst_case: WorstCase, elr: bool, impossible: bool
) -> None:
    counts = Counts(kills=2, fencings=1, shrinks=1)
    found = answered(configuration(elr=elr), replace(worst_case, counts=counts))
    assert (found.likelihood["lost"] is Likelihood.IMPOSSIBLE) is impossible
    assert ("stay in the ELR" in found.reasons["lost"]) is not impossible


@pytest.mark.parametrize(
    ("counts", "limits"),
    [
        (Counts(kills=1), "up to 1 SIGKILL"),
        (Counts(shrinks=math.inf), "any number of ISR shrinks"),
        (
            Counts(kills=30, shrinks=math.inf, fencings=2),
            "up to 30 SIGKILLs, 2 lost sessions and any number of ISR shrinks",
        ),
    ],
)
def test_numbers_are_limits_in_words(counts: Counts, limits: str) -> None:
    assert counts.limits == limits


def test_the_smallest_losing_numbers_are_an_antichain() -> None:
    found = search_minima(question(), failures=2)
    assert found.searched == 2
    smallest = {one.counts for one in found.losing}
    assert Counts(power_losses=1, kills=1) in smallest
    assert Counts(power_losses=1, shrinks=1) in smallest
    assert not any(one != other and one.within(other) for one in smallest for other in smallest)
    assert found.lost_by(Counts(power_losses=3, kills=2))
    assert not found.excludes(Counts(power_losses=1, kills=1))
    assert found.excludes(Counts(kills=1, fencings=1))
    assert not found.excludes(Counts(kills=math.inf)), "more than was searched"
    assert all(one.steps for one in found.losing)


@pytest.mark.parametrize("other", [{"unclean": True}, {"version": "2.6.2"}])
def test_losses_of_other_rules_give_the_same_minima(other: dict[str, Any]) -> None:
    """They are tried before the search; a loss that these rules exclude is not taken over."""
    alike = search_minima(question(**other), failures=2).losing
    found, searched = (
        search_minima(question(), failures=2, alike=alike),
        search_minima(question(), failures=2),
    )
    assert {one.counts for one in found.losing} == {one.counts for one in searched.losing}
    assert found.states < searched.states
    for one in found.losing:
        assert list(narrate(question(), one))[-1].endswith("it is lost.")


def test_a_search_of_lag_does_not_exclude_fewer_shrinks() -> None:
    """{power loss, 2 shrinks} loses, so that one shrink and another failure were not asked."""
    asked = question("4.3.1", replicas=3, min_insync_replicas=2)
    counts = Counts(kills=1, power_losses=1, shrinks=1)
    found = replace(stored()[asked.key], losing=(), safe=())
    assert not found.excludes(counts)
    assert search(asked.model(budgets=Budgets(kills=1, power_losses=1, shrinks=1))).lost


def test_a_search_that_runs_out_of_states_claims_only_what_it_has_finished() -> None:
    few, all_of_them = (
        search_minima(question(replicas=3), failures=2, max_states=most)
        for most in (2_000, 8_000_000)
    )
    assert few.searched < 2
    assert undecided(question(replicas=3), few, failures=2)
    assert not undecided(question(replicas=3), all_of_them, failures=2)


def test_versions_with_the_same_rules_are_one_question() -> None:
    assert question("4.3.1", elr=True).key == question("4.2.0", elr=True).key
    assert question("4.3.1", elr=True).key != question("4.3.1").key
    assert question("0.10.2.2").key != question("2.6.2").key


def test_every_question_was_searched() -> None:
    known = stored()
    assert {known[one.key].searched for one in questions()} == {3, 4}


@pytest.mark.parametrize("version", ["3.9.1", "4.1.2", "4.4.0"])
def test_four_failures_of_the_recommended_configuration_add_no_way_to_lose(version: str) -> None:
    recommended = question(version, elr=version >= "4", replicas=3, min_insync_replicas=2)
    known = stored()[recommended.key]
    assert known.searched == 4
    assert {one.counts.total for one in known.losing} == {3}


@pytest.mark.parametrize(
    ("given", "counts", "likelihood"),
    [
        (configuration(acks="1"), Counts(kills=1), Likelihood.POSSIBLE),
        (configuration(acks="1"), Counts(shrinks=2), Likelihood.IMPOSSIBLE),
        (configuration(acks="1", kafka_version="3.4.1"), Counts(shrinks=2), Likelihood.IMPOSSIBLE),
        (configuration(), Counts(kills=1, power_losses=1), Likelihood.IMPOSSIBLE),
        (configuration(), Counts(kills=50, fencings=math.inf), Likelihood.IMPOSSIBLE),
        (configuration(), Counts(kills=50, power_losses=1), Likelihood.POSSIBLE),
        (configuration(unclean_leader_election=True), Counts(kills=9), Likelihood.POSSIBLE),
        (configuration(replication_factor=1), Counts(power_losses=1), Likelihood.POSSIBLE),
    ],
)  # fmt: skip
def test_what_a_budget_may_lose(
    given: Configuration, counts: Counts, likelihood: Likelihood
) -> None:
    found = answered(given, WorstCase(counts=counts))
    assert found.likelihood["lost"] is likelihood
    assert counts.limits in found.method


@pytest.mark.parametrize(
    ("version", "worst_case", "likelihood"),
    [
        ("3.8.1", WorstCase(), Likelihood.IMPOSSIBLE),
        ("3.8.1", WorstCase(unclean=True), Likelihood.POSSIBLE),
        ("3.8.1", WorstCase(unclean_set=True), Likelihood.IMPOSSIBLE),
        ("3.8.1", WorstCase(versions=("3.9.1",)), Likelihood.POSSIBLE),
        ("3.9.1", WorstCase(), Likelihood.POSSIBLE),
        ("2.8.2", WorstCase(), Likelihood.POSSIBLE),
    ],
)
@pytest.mark.parametrize("anomaly", ["lost", "duplicated"])
def test_the_setting_of_unclean_elections_counts_where_the_controller_reads_it(
    version: str, worst_case: WorstCase, likelihood: Likelihood, anomaly: str
) -> None:
    given = replace(configuration(), kafka_version=version, idempotence=True)
    given = replace(given, unclean_leader_election=True)
    found = answered(given, replace(worst_case, counts=Counts(kills=9)))
    assert found.likelihood[anomaly] is likelihood
    off = replace(given, unclean_leader_election=False)
    found = answered(off, WorstCase(unclean_set=True, counts=Counts(kills=9), versions=("3.9.1",)))
    assert found.likelihood[anomaly] is Likelihood.POSSIBLE


@pytest.mark.parametrize(
    ("version", "elr", "losses", "likelihood"),
    [
        ("3.9.1", False, 1, Likelihood.IMPOSSIBLE),
        ("4.2.0", False, 1, Likelihood.IMPOSSIBLE),
        ("4.2.0", True, 1, Likelihood.POSSIBLE),
        ("4.3.1", True, 1, Likelihood.IMPOSSIBLE),
        ("4.3.1", True, 3, Likelihood.POSSIBLE),
    ],
)
def test_a_new_directory_loses_its_log_and_before_4_3_the_elr(
    version: str, elr: bool, losses: int, likelihood: Likelihood
) -> None:
    given = replace(configuration(), kafka_version=version, elr=elr)
    renewed = WorstCase(renewed=True, counts=Counts(power_losses=losses))
    found = answered(given, renewed)
    assert found.likelihood["lost"] is likelihood
    of_elr = "20716" in found.reasons["lost"]
    assert of_elr is (version == "4.2.0" and elr)
    lossless = answered(given, replace(renewed, renewed=False))
    assert lossless.likelihood["lost"] is (Likelihood.IMPOSSIBLE if of_elr else likelihood)


def test_what_was_read_is_as_safe_as_what_acks_all_has_acked() -> None:
    one_kill = WorstCase(counts=Counts(kills=1))
    found = answered(configuration(acks="1"), one_kill)
    assert found.likelihood["lost"] is Likelihood.POSSIBLE
    assert found.likelihood["read-then-gone"] is Likelihood.IMPOSSIBLE
    lossy = WorstCase(counts=Counts(power_losses=1, kills=2))
    assert answered(configuration(), lossy).likelihood["read-then-gone"] is Likelihood.POSSIBLE
    deleted = answered(configuration(), WorstCase(removed=True))
    assert deleted.likelihood["read-then-gone"] is Likelihood.POSSIBLE


def test_the_way_to_a_loss_is_given() -> None:
    found = answered(configuration(acks="1"), WorstCase(counts=Counts(kills=1)))
    assert "A is killed (SIGKILL): what it appended stays in its log." in found.trace
    assert f"{len(found.trace) - 1} steps" in found.reasons["lost"]


def test_every_stored_step_has_a_sentence() -> None:
    every = {step for known in stored().values() for one in known.losing for step in one.steps}
    assert all("{" not in sentence(step) for step in every)
    assert sentence(("lose power", 0, 1)) == "A loses power: its log keeps 1 of its records."
    assert sentence(("fetch", 2, 1)) == "C fetches from B."


@pytest.mark.slow
def test_every_stored_loss_ends_with_an_ack_and_the_leader_that_lacks_the_record() -> None:
    known = stored()
    for one in questions():
        for found in known[one.key].losing:
            told = list(narrate(one, found))
            assert len(told) == len(found.steps) + 1
            assert any("acks" in sentence for sentence in told[:-1]), found.steps
            assert re.fullmatch(r"[A-C] leads without record 1, which was .* lost\.", told[-1])


def test_without_effects_nothing_happens() -> None:
    assert answers(answered(configuration(), NOTHING), Likelihood.IMPOSSIBLE) == set(
        answered(configuration(), NOTHING).likelihood
    )


@pytest.mark.parametrize(
    ("worst_case", "possible"),
    [
        (WorstCase(altered=True), {"corrupt", "diverged"}),
        (
            WorstCase(rewritten=True),
            {"gap", "diverged", "lost", "read-then-gone", "inconsistent"},
        ),
        (WorstCase(unanswered=True), {"duplicated", "reordered"}),
        (WorstCase(repeated=True), {"duplicated", "reordered"}),
    ],
)
def test_other_anomalies_follow_from_effects(worst_case: WorstCase, possible: set[str]) -> None:
    assert answers(answered(configuration(), worst_case), Likelihood.POSSIBLE) == possible
    idempotent = configuration(idempotence=True)
    once = possible - {"duplicated", "reordered"} | (
        {"duplicated", "reordered"} if worst_case.altered else set()
    )
    assert answers(answered(idempotent, worst_case), Likelihood.POSSIBLE) == once


def test_a_deleted_topic_is_certainly_lost_only_if_something_was_acked() -> None:
    assert (
        answered(configuration(), WorstCase(removed=True)).likelihood["lost"] is Likelihood.POSSIBLE
    )
    emptied = WorstCase(removed=True, emptied=True)
    assert answered(configuration(), emptied).likelihood["lost"] is Likelihood.CERTAIN


def test_a_minimum_isr_that_refuses_every_send_may_be_lowered() -> None:
    given = configuration(kafka_version="3.5.2", min_insync_replicas=4)
    lossy = WorstCase(counts=Counts(power_losses=1, shrinks=2))
    assert answered(given, lossy).likelihood["lost"] is Likelihood.IMPOSSIBLE
    lowered = answered(given, replace(lossy, lowered=1))
    assert lowered.likelihood["lost"] is Likelihood.POSSIBLE


def test_a_fault_that_may_do_anything_excludes_nothing() -> None:
    found = answered(configuration(), WorstCase(anything="flood may do anything"))
    assert set(found.likelihood.values()) == {Likelihood.POSSIBLE}


def test_other_versions_that_run_meanwhile_count() -> None:
    two = WorstCase(counts=Counts(kills=2))
    assert answered(configuration(), two).likelihood["lost"] is Likelihood.IMPOSSIBLE
    older = replace(two, versions=("0.10.2.2",))
    found = answered(configuration(), older)
    assert found.likelihood["lost"] is Likelihood.POSSIBLE
    assert "0.10.2.2" in found.reasons["lost"]


@pytest.mark.parametrize(
    ("counts", "changes", "likelihood"),
    [
        (Counts(leader_moves=3), {}, Likelihood.POSSIBLE),
        (Counts(leader_moves=1, kills=2), {}, Likelihood.POSSIBLE),
        (Counts(leader_moves=1, kills=1, shrinks=math.inf), {}, Likelihood.IMPOSSIBLE),
        (Counts(leader_moves=3), {"replication_factor": 2}, Likelihood.IMPOSSIBLE),
        (Counts(kills=3), {}, Likelihood.IMPOSSIBLE),
    ],
)
def test_a_leader_that_misses_a_change_may_lose_records(
    counts: Counts, changes: dict[str, Any], likelihood: Likelihood
) -> None:
    found = answered(configuration(**changes), WorstCase(counts=counts))
    assert found.likelihood["lost"] is likelihood


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_partition_that_moves_may_have_a_third_replica(replicas: int) -> None:
    given = configuration(replication_factor=replicas)
    moving = WorstCase(counts=Counts(leader_moves=3), moves=1)
    assert answered(given, moving).likelihood["lost"] is Likelihood.POSSIBLE
    fewer = replace(moving, counts=Counts(leader_moves=2))
    assert answered(given, fewer).likelihood["lost"] is Likelihood.IMPOSSIBLE


def walks_lose(model: AdversaryModel, *, walks: int, steps: int) -> bool:
    """Whether one of several random walks of the adversary loses an acked record.

    A perturbation is one step in ten, so that records are written and acked between them.
    """
    chance = random.Random(7)
    for _ in range(walks):
        state = initial(model)
        for _ in range(steps):
            free, perturbing = [], []
            for label, one in successors(model, state):
                (perturbing if label[0] in PERTURBATIONS else free).append(one)
            if not (free or perturbing):
                break
            perturbed = perturbing and (not free or chance.random() < 0.1)
            state = chance.choice(perturbing if perturbed else free)
            if lost(state):
                return True
    return False


@pytest.mark.parametrize(("version", "elr"), [("2.6.2", False), ("3.9.1", False), ("4.3.1", True)])
def test_random_walks_do_not_refute_that_logs_that_keep_everything_lose_nothing(
    version: str, elr: bool
) -> None:
    asked = question(version, elr=elr, replicas=3)
    assert keeps_everything(asked, Counts(kills=math.inf, shrinks=math.inf))
    model = asked.model(budgets=KEEPING, reduction=False)
    assert not walks_lose(model, walks=40, steps=150)


def test_random_walks_do_find_losses() -> None:
    lossy = replace(KEEPING, power_losses=7, kills=0)
    assert not keeps_everything(question(), Counts(power_losses=1))
    assert walks_lose(question().model(budgets=lossy, reduction=False), walks=40, steps=150)
    assert not keeps_everything(question(acks="1"), Counts(kills=1))
    assert not keeps_everything(question(unclean=True), Counts(kills=1))
    assert not keeps_everything(question("0.11.0.3"), Counts(kills=1))
