"""Each rule that depends on Kafka's version is told from its opposite."""

from __future__ import annotations

from dataclasses import fields

import pytest

from ackproof_model import Profile
from specifications import client_version_mutants as of_clients
from specifications.version_mutants import ELSEWHERE, MUTANTS, OtherRule, mutation


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(one, marks=[pytest.mark.slow] if one.slow else [], id=str(one))
        for one in MUTANTS
    ],
)
def test_with_another_version_s_rule_an_answer_changes(mutant):
    assert mutation(mutant).refuted


@pytest.mark.parametrize("mutant", of_clients.MUTANTS, ids=lambda one: one[0])
def test_clients_notice_another_version_s_rule(mutant):
    assert of_clients.mutation(*mutant).refuted


def test_every_rule_has_a_mutant_or_is_told_elsewhere():
    rules = {field.name for field in fields(Profile)}
    of_replication = {mutant.rule for mutant in MUTANTS} | set(ELSEWHERE)
    of_others = {rule for rule, _, _ in of_clients.MUTANTS} | set(of_clients.ELSEWHERE)
    assert rules == of_replication | of_others
    assert not of_replication & of_others


def test_only_the_rule_that_is_named_changes():
    other = OtherRule(kafka_version="4.1.0", rules={"elr": False}).profile
    real = Profile.of("4.1.0")
    changed = {f.name for f in fields(Profile) if getattr(other, f.name) != getattr(real, f.name)}
    assert changed == {"elr"}
