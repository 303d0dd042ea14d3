"""Each failure that an operator may name has an answer: of the model's search, or of a risk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

import pytest

from ackproof.audit.failure import EVENTS, Failure
from ackproof.audit.risks import kinds
from ackproof.audit.words import phrase
from ackproof_model.worst_case import failure_sets
from ackproof_model.worst_case.failure_sets import Exposed, perturbations
from ackproof_model.worst_case.minima import Question

PARTITION = Exposed(
    question=Question(
        kafka_version="4.3.1",
        elr=True,
        acks="all",
        replicas=3,
        min_insync_replicas=2,
        unclean=False,
    )
)


#: The verbs of failures, of one and of two.
VERBS = (
    {"fall", "crashes", "restarts", "loses", "is", "are", "rebalances", "times"},
    {"fall", "crash", "crashes", "restart", "lose", "is", "are", "rebalances", "time"},
)


def unanswered(failures: Iterable[str]) -> set[str]:
    return set(failures) - {failure for kind in kinds().values() for failure in kind.failures}


def test_every_failure_has_words_and_an_answer() -> None:
    assert set(EVENTS) == set(Failure)
    assert not unanswered(EVENTS)
    assert unanswered([*EVENTS, "flood"]) == {"flood"}


@pytest.mark.parametrize("name", failure_sets.EVENTS)
def test_schedules_and_the_search_count_a_failure_alike(name: str) -> None:
    counted = {key for key, number in asdict(perturbations(PARTITION, (name,))).items() if number}
    named = EVENTS[Failure(name)].perturbation
    assert counted == {named} or not named


@pytest.mark.parametrize("failure", Failure)
def test_any_failures_are_clauses_that_a_sentence_can_join(failure: Failure) -> None:
    """`after a clean restart and a broker loses power` is no English."""
    for number, verbs in enumerate(VERBS, 1):
        assert verbs & set(phrase((failure,) * number).split())
