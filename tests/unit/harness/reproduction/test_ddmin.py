"""Delta debugging against oracles whose answer is known."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackproof.reproduction.ddmin import ddmin, minimize

Oracle = Callable[[tuple[int, ...]], bool]

SIZES = st.integers(min_value=1, max_value=16)


class Asked:
    """An oracle that remembers what it was asked, and answers nothing twice anew."""

    def __init__(self, fails: Oracle) -> None:
        self.fails = fails
        self.answers: dict[tuple[int, ...], bool] = {}
        self.questions = 0

    def __call__(self, part: tuple[int, ...]) -> bool:
        self.questions += 1
        if part not in self.answers:
            self.answers[part] = self.fails(part)
        return self.answers[part]


def require_minimal(size: int, found: tuple[int, ...], asked: Asked) -> None:
    assert list(found) == sorted(found), "the order of the items changed"
    assert asked(found) or len(found) == size
    for item in found:
        assert not asked(tuple(one for one in found if one != item)), f"{item} is not needed"


@given(st.data(), SIZES)
def test_where_more_never_mends_it_finds_exactly_what_matters(data: st.DataObject, n: int) -> None:
    culprits = data.draw(st.sets(st.integers(0, n - 1)))
    asked = Asked(lambda part: culprits <= set(part))
    assert ddmin(range(n), asked) == tuple(sorted(culprits))
    assert asked.questions <= n * (n + 3)


@given(st.data(), SIZES)
def test_one_of_several_ways_to_fail_is_found(data: st.DataObject, n: int) -> None:
    ways = data.draw(st.lists(st.sets(st.integers(0, n - 1), min_size=1), min_size=1, max_size=3))
    asked = Asked(lambda part: any(way <= set(part) for way in ways))
    found = ddmin(range(n), asked)
    assert set(found) in ways
    require_minimal(n, found, asked)


@given(SIZES, st.randoms(use_true_random=False))
def test_whatever_the_oracle_says_nothing_can_be_taken_from_the_answer(
    n: int, chance: random.Random
) -> None:
    """Not monotonic, and flaky when first asked: it stands by what it has said."""
    everything = tuple(range(n))
    asked = Asked(lambda part: part == everything or chance.random() < 0.3)
    require_minimal(n, ddmin(everything, asked), asked)


@settings(max_examples=50)
@given(st.data(), st.integers(4, 12), st.randoms(use_true_random=False))
def test_rare_losses_elsewhere_do_not_mislead_two_of_three(
    data: st.DataObject, n: int, chance: random.Random
) -> None:
    """Planted noise: a part without the culprits loses in 1 % of trials; two must of three."""
    culprits = data.draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=3))

    def trial(part: tuple[int, ...]) -> bool:
        return culprits <= set(part) or chance.random() < 0.01

    asked = Asked(lambda part: sum(trial(part) for _ in range(3)) >= 2)
    found = ddmin(range(n), asked)
    require_minimal(n, found, asked)
    misled = [part for part, fails in asked.answers.items() if fails and not culprits <= set(part)]
    assert found == tuple(sorted(culprits)) or misled


def test_one_trial_of_each_is_misled_where_two_of_three_are_not() -> None:
    """Over many searches with 10 % noise; the seeds are fixed, so the counts are, too."""

    def wrong(trials: int, needed: int) -> int:
        mistakes = 0
        for seed in range(200):
            chance = random.Random(seed)
            culprits = set(chance.sample(range(12), 2))
            asked = Asked(
                lambda part, culprits=culprits, chance=chance: (
                    sum(culprits <= set(part) or chance.random() < 0.1 for _ in range(trials))
                    >= needed
                )
            )
            mistakes += set(ddmin(range(12), asked)) != culprits
        return mistakes

    once, twice = wrong(1, 1), wrong(3, 2)
    assert once > 100
    assert twice < 80
    assert wrong(5, 4) < 5


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_what_fails_without_anything_needs_nothing(n: int) -> None:
    assert ddmin(range(n), lambda _: True) == ()


def test_it_agrees_with_trying_everything() -> None:
    """An oracle that is not monotonic: an even number of items of which one is 3."""

    def fails(part: tuple[int, ...]) -> bool:
        return len(part) % 2 == 0 and 3 in part

    found = ddmin(range(6), fails)
    every = chain.from_iterable(combinations(range(6), size) for size in range(7))
    smallest = min(len(part) for part in every if fails(part))
    assert fails(found)
    assert len(found) == smallest == 2


@given(st.floats(0, 100), st.floats(0, 100))
def test_a_number_is_reduced_to_near_its_threshold(least: float, threshold: float) -> None:
    asked: list[float] = []

    def fails(value: float) -> bool:
        asked.append(value)
        return value >= threshold

    value = 200.0
    found = minimize(value, least, fails, rounds=8)
    assert found >= max(least, threshold)
    assert found == least or found - max(least, threshold) <= (value - least) / 2**8 + 1e-9
    assert len(asked) <= 9


def test_a_number_at_its_least_is_not_asked_about() -> None:
    assert minimize(3.0, 3.0, lambda _: pytest.fail("asked")) == 3.0
    assert minimize(1.0, 3.0, lambda _: pytest.fail("asked")) == 1.0
