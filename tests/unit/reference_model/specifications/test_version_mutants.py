"""Each rule that depends on Kafka's version is told from its opposite."""

from __future__ import annotations

from dataclasses import fields

import pytest

from ackproof_model import Profile
from specifications.version_mutants import ELSEWHERE, MUTANTS, OtherRule, mutation

#: Rules of transactions and of committed offsets, which have mutants of their own.
OTHERS = {
    "transactions",
    "verifies_transactions",
    "transactions_v2",
    "double_bump",
    "first_sequence_zero",
    "strict_markers",
    "group_fencing",
}


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(one, marks=[pytest.mark.slow] if one.slow else [], id=str(one))
        for one in MUTANTS
    ],
)
def test_with_another_version_s_rule_an_answer_changes(mutant):
    assert mutation(mutant).refuted


def test_every_rule_of_replication_has_a_mutant_or_is_told_elsewhere():
    rules = {field.name for field in fields(Profile)} - OTHERS
    assert rules == {mutant.rule for mutant in MUTANTS} | set(ELSEWHERE)


def test_only_the_rule_that_is_named_changes():
    other = OtherRule(kafka_version="4.1.0", rules={"elr": False}).profile
    real = Profile.of("4.1.0")
    changed = {f.name for f in fields(Profile) if getattr(other, f.name) != getattr(real, f.name)}
    assert changed == {"elr"}
