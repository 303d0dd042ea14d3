"""A search detects the removal of each guard, and the reversal of each rule of a version."""

from __future__ import annotations

from dataclasses import fields

import pytest

from ackproof_model import Profile
from specifications import (
    adversary_mutants,
    consumer_group_mutants,
    transaction_mutants,
    version_mutants,
    wrong_rules,
)
from specifications.mutation_score import Mutation, report
from support.sampling import in_sample

SUBJECTS = (adversary_mutants, version_mutants, transaction_mutants, consumer_group_mutants)
#: Searches of a minute and more, and a guard whose search repeats one of them. Of the others,
#: ci/test removes one of six.
SLOW = {"fetch_epoch_check", "fetch_fencing of 2.1.0", "fenced_last_known of 4.1.0"}


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(
            mutant,
            marks=[pytest.mark.slow]
            if mutant.guard in SLOW or not in_sample(str(mutant), one_of=6)
            else [],
            id=f"{subject.__name__.split('.')[-1]}: {mutant}",
        )
        for subject in SUBJECTS
        for mutant in subject.MUTANTS
    ],
)
def test_without_a_guard_an_answer_changes(mutant):
    assert mutant.mutation().refuted


@pytest.mark.parametrize(
    ("subject", "guards"),
    [
        (adversary_mutants, wrong_rules.WRONG),
        (transaction_mutants, transaction_mutants.WRONG),
        (consumer_group_mutants, consumer_group_mutants.WRONG),
    ],
)
def test_each_guard_has_a_mutant(subject, guards):
    assert {mutant.guard for mutant in subject.MUTANTS} == guards.keys()


def test_each_rule_of_a_version_has_a_mutant_or_another_test():
    reversed_rules = {str(mutant).partition(" of ")[0] for mutant in version_mutants.MUTANTS}
    assert reversed_rules | version_mutants.ELSEWHERE.keys() == {
        one.name for one in fields(Profile)
    }
    assert not reversed_rules & version_mutants.ELSEWHERE.keys()


@pytest.mark.parametrize(
    ("steps", "before", "refuted"),
    [(4, None, True), (4, 5, True), (5, 5, False), (None, None, False)],
)
def test_a_new_or_a_shorter_trace_refutes_a_mutant(steps, before, refuted):
    assert Mutation(guard="g", anomaly="lost", steps=steps, before=before).refuted == refuted


def test_the_report_ends_with_the_score():
    mutations = [
        Mutation(guard="one", anomaly="lost", steps=4, before=None),
        Mutation(guard="two", anomaly="lost", steps=None, before=None),
    ]
    assert list(report(mutations)) == [
        ("one:                          refuted: lost in 4 steps (none with it)", True),
        ("two:                          survives", False),
        ("score: 1 of 2 guards", True),
    ]
