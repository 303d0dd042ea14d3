"""The mutation score: what is refuted, what survives, and what is as expected."""

from __future__ import annotations

import pytest

from specifications.mutation_score import Mutation, report


@pytest.mark.parametrize(
    ("steps", "before", "survives", "refuted", "expected"),
    [
        (4, None, "", True, True),
        (4, 5, "", True, True),
        (5, 5, "", False, False),
        (None, None, "", False, False),
        (None, None, "a reason", False, True),
        (4, None, "a reason", True, False),
    ],
)
def test_a_guard_is_refuted_by_a_new_way_or_a_nearer_one(
    steps, before, survives, refuted, expected
):
    mutation = Mutation(guard="g", anomaly="lost", steps=steps, before=before, survives=survives)
    assert (mutation.refuted, mutation.expected) == (refuted, expected)


def test_the_report_ends_with_the_score():
    found = [
        Mutation(guard="one", anomaly="lost", steps=4, before=None),
        Mutation(guard="two", anomaly="lost", steps=None, before=None),
    ]
    assert list(report(found)) == [
        ("one:                          refuted: lost in 4 steps (none with it)", True),
        ("two:                          survives: NOT EXPLAINED", False),
        ("score: 1 of 2 guards", True),
    ]
