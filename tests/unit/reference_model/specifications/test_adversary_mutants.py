"""Each guard of the replication rules is refuted by a search, or its survival is explained."""

from __future__ import annotations

import pytest

from specifications.adversary_mutants import MUTANTS, mutation
from specifications.wrong_rules import WRONG


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
    assert {mutant.guard for mutant in MUTANTS} == WRONG.keys()
