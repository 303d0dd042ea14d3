"""Availability follows the definition in `metrics`, in whatever order acks become known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ackproof_spark.live.partition import availability, since, with_acks

GAP = 5
_TIMES = st.lists(st.integers(0, 100), max_size=30)


def by_definition(acks: list[int], start: int, stop: int) -> float:
    """Share of the unit steps from `start` to `stop` that lie in no pause longer than GAP."""
    times = sorted(set(acks))
    available = set()
    for earlier, later in itertools.pairwise(times):
        if later - earlier <= GAP:
            available |= set(range(earlier, later))
    return len(available & set(range(start, stop))) / (stop - start)


@given(_TIMES, st.integers(0, 99), st.integers(1, 40), st.randoms())
def test_availability_follows_its_definition_in_any_order_of_acks(acks, start, length, random):
    spans: list[tuple[int, int]] = []
    rest = list(acks)
    random.shuffle(rest)
    while rest:
        some = random.randint(1, len(rest))
        spans = with_acks(spans, np.array(rest[:some]), gap=GAP)
        rest = rest[some:]
    assert availability(spans, start, start + length) == pytest.approx(
        by_definition(acks, start, start + length)
    )


@given(_TIMES, st.integers(0, 60), st.lists(st.integers(60, 100), max_size=10))
@example([55, 61], 56, [60])
def test_dropping_old_spans_does_not_change_later_availability(acks, now, later):
    spans = with_acks([], np.array(acks, int), gap=GAP)
    recent = with_acks(since(spans, now), np.array(later, int), gap=GAP)
    whole = with_acks(spans, np.array(later, int), gap=GAP)
    assert availability(recent, now, 100) == availability(whole, now, 100)
