"""Each guard of the replication rules is refuted by a search, or its survival is explained."""

from __future__ import annotations

from dataclasses import fields

import pytest

from ackproof_model import SafetyChecks
from specifications.adversary_mutants import MUTANTS, mutation

#: TransactionChecks of the producer, which the adversary's records do not have.
PRODUCER = {"idempotent_dedup", "sequence_check", "retry_order"}


@pytest.mark.parametrize(
    "mutant",
    [
        # ci/mutants asks for all of them; this one is refuted after the longest search.
        pytest.param(one, marks=[pytest.mark.slow] if one.guard == "fetch_epoch_check" else [])
        for one in MUTANTS
    ],
    ids=lambda mutant: mutant.guard,
)
def test_without_a_guard_an_answer_changes(mutant):
    found = mutation(mutant)
    assert found.refuted == (not mutant.survives)


def test_there_is_a_mutant_for_each_guard():
    assert {mutant.guard for mutant in MUTANTS} == {f.name for f in fields(SafetyChecks)} - PRODUCER
