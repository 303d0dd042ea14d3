"""Each guard of transactions is refuted by a search."""

from __future__ import annotations

import pytest

from specifications.transaction_mutants import MUTANTS, WRONG


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.guard)
def test_without_a_guard_an_anomaly_comes_about(mutant):
    assert mutant.mutation.refuted


def test_there_is_a_mutant_for_each_guard():
    assert {mutant.guard for mutant in MUTANTS} == WRONG.keys()
