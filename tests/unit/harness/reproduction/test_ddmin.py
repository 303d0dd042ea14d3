"""Delta debugging with oracles of known result."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.reproduction.shrink import ddmin, minimize

Oracle = Callable[[tuple[int, ...]], bool]

SIZES = st.integers(min_value=1, max_value=16)


class CachingOracle:
    """An oracle that caches its answers and counts its calls."""

    def __init__(self, fails: Oracle) -> None:
        self.fails = fails
        self.answers: dict[tuple[int, ...], bool] = {}
        self.calls = 0

    def __call__(self, part: tuple[int, ...]) -> bool:
        self.calls += 1
        if part not in self.answers:
            self.answers[part] = self.fails(part)
        return self.answers[part]


def require_minimal(size: int, found: tuple[int, ...], oracle: CachingOracle) -> None:
    assert list(found) == sorted(found), "the order of the items changed"
    assert oracle(found) or len(found) == size
    for item in found:
        assert not oracle(tuple(one for one in found if one != item)), f"{item} is not needed"


@given(st.data(), SIZES)
def test_a_monotonic_failure_is_reduced_to_exactly_its_causes(data: st.DataObject, n: int) -> None:
    culprits = data.draw(st.sets(st.integers(0, n - 1)))
    oracle = CachingOracle(lambda part: culprits <= set(part))
    assert ddmin(range(n), oracle) == tuple(sorted(culprits))
    assert oracle.calls <= n * (n + 3)


@given(st.data(), SIZES)
def test_one_of_several_ways_to_fail_is_found(data: st.DataObject, n: int) -> None:
    ways = data.draw(st.lists(st.sets(st.integers(0, n - 1), min_size=1), min_size=1, max_size=3))
    oracle = CachingOracle(lambda part: any(way <= set(part) for way in ways))
    found = ddmin(range(n), oracle)
    assert set(found) in ways
    require_minimal(n, found, oracle)


@given(SIZES, st.randoms(use_true_random=False))
def test_the_result_is_minimal_for_every_oracle(n: int, chance: random.Random) -> None:
    """A random oracle that is not monotonic, with cached answers."""
    everything = tuple(range(n))
    oracle = CachingOracle(lambda part: part == everything or chance.random() < 0.3)
    require_minimal(n, ddmin(everything, oracle), oracle)


def test_single_trials_end_with_wrong_steps_more_often_than_two_of_three() -> None:
    """Many searches with 10 % noise; fixed seeds make the counts reproducible."""

    def wrong(trials: int, needed: int) -> int:
        mistakes = 0
        for seed in range(200):
            chance = random.Random(seed)
            culprits = set(chance.sample(range(12), 2))
            oracle = CachingOracle(
                lambda part, culprits=culprits, chance=chance: (
                    sum(culprits <= set(part) or chance.random() < 0.1 for _ in range(trials))
                    >= needed
                )
            )
            mistakes += set(ddmin(range(12), oracle)) != culprits
        return mistakes

    once, twice = wrong(1, 1), wrong(3, 2)
    assert once > 100
    assert twice < 80
    assert wrong(5, 4) < 5


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_a_failure_without_items_is_reduced_to_the_empty_set(n: int) -> None:
    assert ddmin(range(n), lambda _: True) == ()


@given(st.floats(0, 100), st.floats(0, 100))
def test_a_number_is_reduced_to_near_its_threshold(least: float, threshold: float) -> None:
    tried: list[float] = []

    def fails(value: float) -> bool:
        tried.append(value)
        return value >= threshold

    value = 200.0
    found = minimize(value, least, fails, rounds=8)
    assert found >= max(least, threshold)
    assert found == least or found - max(least, threshold) <= (value - least) / 2**8 + 1e-9
    assert len(tried) <= 9


def test_a_number_at_its_minimum_is_not_tried() -> None:
    assert minimize(3.0, 3.0, lambda _: pytest.fail("called")) == 3.0
    assert minimize(1.0, 3.0, lambda _: pytest.fail("called")) == 1.0
