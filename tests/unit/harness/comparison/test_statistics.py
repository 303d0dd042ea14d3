from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from ackproof.comparison import statistics
from ackproof.comparison.statistics import (
    Count,
    Design,
    PairState,
    Sequential,
    interval,
    more_trials,
)

COMPARISONS = 10_000
TRIALS = 30
ALPHA = 0.05

# Loss probabilities of the configurations of one comparison. A reported difference between equal
# probabilities is an error.
TRUTHS = [
    (0.5, 0.5, 0.5),
    (0.1, 0.1, 0.1),
    (0.0, 0.0, 1.0),
    (0.02, 0.3, 0.3),
    (0.2, 0.8, 0.95),
]


def simulate(
    truths: Sequence[float], comparisons: int, *, update: Callable[..., None] | None = None
) -> tuple[list[float], float]:
    """Compare configurations with known probabilities; return coverages and error rate."""
    rng = np.random.default_rng(20261121)
    plan = Design.for_trials(TRIALS)
    names = [str(number) for number in range(len(truths))]
    covered = [0] * len(truths)
    wrong = 0
    for _ in range(comparisons):
        lost = (rng.random((len(truths), TRIALS)) < np.array(truths)[:, None]).cumsum(axis=1)
        tried = dict.fromkeys(names, 0)
        progress = Sequential(plan, names, margin=0.2)
        for trials in plan.looks:
            for name in progress.open:
                tried[name] = trials
            found = {
                name: Count(losing=int(lost[int(name), tried[name] - 1]), trials=tried[name])
                for name in names
            }
            progress.update(found)
            if update is not None:
                update(progress, found)
            if not progress.open:
                break
        for number, name in enumerate(names):
            at = interval(found[name], plan, progress.look_of[name])
            covered[number] += at.low <= truths[number] <= at.high
        wrong += any(
            state.settled == "different" and truths[int(a)] == truths[int(b)]
            for (a, b), state in progress.pairs.items()
        )
    return [count / comparisons for count in covered], wrong / comparisons


@pytest.mark.parametrize("truths", TRUTHS)
def test_intervals_contain_the_probability_and_equal_ones_are_not_reported_as_different(
    truths: tuple[float, ...],
) -> None:
    """10,000 comparisons in total, with the product's stopping rule."""
    coverage, errors = simulate(truths, COMPARISONS // len(TRUTHS))
    # Conservative, as exact intervals are: 97 to 100 %.
    assert min(coverage) >= 1 - ALPHA
    assert errors <= ALPHA


def test_repeated_looks_without_correction_exceed_the_error() -> None:
    """The positive control: the simulation detects a method without correction."""

    def naive(progress: Sequential, counts: dict[str, Count]) -> None:
        for pair, state in progress.pairs.items():
            if statistics.loss_test(*(counts[name] for name in pair)) <= ALPHA:
                found = PairState(p_value=0, settled="different")
                progress.pairs[pair] = state if state.settled else found

    _, errors = simulate((0.5, 0.5, 0.5), 1000, update=naive)
    assert errors > ALPHA


def test_fixed_intervals_at_every_look_do_not_keep_the_coverage() -> None:
    looks = Design.for_trials(TRIALS).looks
    fixed = statistics._worst_coverage(looks, [ALPHA] * len(looks))
    assert fixed < 1 - ALPHA
    planned = statistics._worst_coverage(
        looks, statistics.interval_levels(Design.for_trials(TRIALS))
    )
    assert planned >= 1 - ALPHA


@pytest.mark.parametrize("trials", [1, 2, 3, 5, 10, 30, 100])
def test_a_design_has_few_looks_and_ends_with_all_trials(trials: int) -> None:
    plan = Design.for_trials(trials)
    assert plan.looks[-1] == trials
    assert list(plan.looks) == sorted(set(plan.looks))
    assert len(plan.looks) <= statistics.LOOKS
    assert sum(statistics.interval_levels(plan)) < 0.2


def test_the_bound_for_no_loss_in_thirty_trials_is_slightly_wider_than_without_looks() -> None:
    fixed = statistics.clopper_pearson(0, 30, ALPHA)
    assert fixed.high == pytest.approx(0.1157, abs=1e-4)
    planned = interval(Count(losing=0, trials=30), Design.for_trials(30), 4)
    assert fixed.high < planned.high < 0.125


def test_configurations_without_loss_are_alike_once_the_intervals_are_narrow() -> None:
    progress = Sequential(Design.for_trials(30), ["a", "b"], margin=0.2)
    for trials in (6, 12, 18, 24):
        assert progress.open == ["a", "b"]
        progress.update(dict.fromkeys("ab", Count(losing=0, trials=trials)))
    assert progress.pairs["a", "b"].settled == "alike"


def test_clear_differences_end_early_and_a_settled_pair_stays_settled() -> None:
    progress = Sequential(Design.for_trials(30), ["a", "b"], margin=0.2)
    progress.update({"a": Count(losing=0, trials=6), "b": Count(losing=6, trials=6)})
    assert progress.open == []
    assert progress.pairs["a", "b"].settled == "different"
    progress.update({"a": Count(losing=3, trials=6), "b": Count(losing=3, trials=6)})
    assert progress.pairs["a", "b"].settled == "different"


def test_a_dropped_configuration_needs_no_more_trials() -> None:
    progress = Sequential(Design.for_trials(30), ["a", "b", "c"], margin=0.2)
    progress.drop("c")
    assert progress.open == ["a", "b"]
    progress.update(
        {"a": Count(losing=0, trials=6), "b": Count(losing=6, trials=6)}
        | {"c": Count(losing=0, trials=0)}
    )
    assert progress.pairs["a", "b"].settled == "different"
    assert progress.open == []


def test_a_look_after_the_last_planned_one_is_an_error() -> None:
    progress = Sequential(Design.for_trials(1), ["a"], margin=0.2)
    progress.update({"a": Count(losing=0, trials=1)})
    with pytest.raises(ValueError, match="all 1 planned looks"):
        progress.update({"a": Count(losing=0, trials=1)})


def test_holm_correction() -> None:
    assert statistics.holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert statistics.holm([]) == []


def test_rank_tests_are_exact_with_and_without_ties() -> None:
    low, high = [1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]
    assert statistics.rank_test(low, high) == pytest.approx(2 / 70)
    assert statistics.rank_test([0.0] * 4, [0.0] * 4) == 1.0
    tied = statistics.rank_test([0.0, 0.0, 0.0, 1.0], [2.0, 2.0, 3.0, 3.0])
    assert tied == pytest.approx(2 / 70)
    assert statistics.shift(low, high) == 4.0


def test_the_estimated_trials_have_the_promised_power() -> None:
    plan = Design.for_trials(30)
    a, b = Count(losing=2, trials=10), Count(losing=6, trials=10)
    more = more_trials(a, b, plan, pairs=1, margin=0.2)
    assert more is not None
    rng = np.random.default_rng(7)
    trials = 10 + more
    seen = 0
    for x, y in itertools.islice(
        zip(rng.binomial(trials, 2.5 / 11, 500), rng.binomial(trials, 6.5 / 11, 500), strict=True),
        500,
    ):
        ours, theirs = Count(losing=int(x), trials=trials), Count(losing=int(y), trials=trials)
        seen += statistics.loss_test(ours, theirs) <= plan.level
    assert 0.65 < seen / 500 < 0.95


def test_no_number_of_trials_settles_equal_probabilities_within_a_tiny_margin() -> None:
    same = Count(losing=5, trials=10)
    assert more_trials(same, same, Design.for_trials(30), pairs=1, margin=0.01) is None
