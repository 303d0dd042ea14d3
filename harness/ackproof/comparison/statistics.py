"""Confidence intervals and tests for a comparison. The unit is the trial, never the record.

All records that are lost in one failover are one event, so each configuration has a probability
that a trial loses. A comparison looks at the trials a few times (interim looks), to stop early.
Without a correction, repeated looks report false differences. Two methods keep the confidence:

- **Tests**: each of at most K planned looks tests at `alpha / K`, with Holm's correction over the
  pairs (Pocock 1977 in its simplest form: the union bound over the looks is valid for every
  dependence between looks, pairs and the stopping rule).
- **Intervals**: Clopper-Pearson at each look, as repeated confidence intervals (Jennison and
  Turnbull 1989). Most of the error is spent late: `gamma_k = c * alpha * (t_k**3 - t_(k-1)**3)`,
  where t_k is the look's share of the planned trials. c = 1 is the union bound. c is the largest
  factor for which all intervals of a configuration *together* contain the true probability with the
  requested confidence, for every true probability (computed from the binomial distribution). So
  each interval is valid for every stopping rule.

Both are conservative: they guarantee a bound on the error. `Sequential` decides after each look
which pairs are settled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

#: Maximum number of looks, and the trials of each configuration before the first look.
LOOKS = 5
FIRST_LOOK = 3
#: Power of the error spending function.
_SPENDING = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The number of trials, and how many of them lost a record."""

    losing: int
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A group sequential design: `looks` are the trials of each configuration at each look.

    `alpha` is the total error: 0.05 for 95 % confidence.
    """

    looks: tuple[int, ...]
    alpha: float

    @classmethod
    def for_trials(cls, trials: int, *, confidence: float = 0.95) -> Self:
        looks = {math.ceil(trials * k / LOOKS) for k in range(1, LOOKS)}
        return cls(
            looks=(*sorted(n for n in looks if FIRST_LOOK <= n < trials), trials),
            alpha=1 - confidence,
        )

    @property
    def level(self) -> float:
        """The significance level of each look."""
        return self.alpha / len(self.looks)


def clopper_pearson(losing: int, trials: int, alpha: float) -> Interval:
    """Return the exact two-sided interval for a fixed number of trials."""
    low, high = limits(np.array([losing]), np.array([trials]), alpha)
    return Interval(low=float(low[0]), high=float(high[0]))


@cache
def interval_levels(design: Design) -> tuple[float, ...]:
    """Return the error of the Clopper-Pearson interval at each look; see the module's docstring."""
    weights = _weights(design)

    def levels(factor: float) -> tuple[float, ...]:
        return tuple(min(factor * design.alpha * weight, 0.9) for weight in weights)

    low, high = 1.0, 1.0
    while high < 4 and _worst_coverage(design.looks, levels(high)) >= 1 - design.alpha:
        low, high = high, high * 1.5
    if low == high:
        return levels(1.0)
    for _ in range(6):
        middle = (low + high) / 2
        if _worst_coverage(design.looks, levels(middle)) >= 1 - design.alpha:
            low = middle
        else:
            high = middle
    return levels(low)


def _weights(design: Design) -> list[float]:
    """Return each look's share of the intervals' error; the sum is 1."""
    spent = [(trials / design.looks[-1]) ** _SPENDING for trials in design.looks]
    return [now - before for now, before in zip(spent, [0.0, *spent], strict=False)]


def _worst_coverage(looks: Sequence[int], levels: Sequence[float]) -> float:
    """Return the lowest simultaneous coverage of all looks' intervals over all probabilities."""
    sides = [
        limits(np.arange(n + 1), np.full(n + 1, n), level)
        for n, level in zip(looks, levels, strict=True)
    ]
    ends = np.concatenate([side for pair in sides for side in pair])
    ends = ends[(ends > 0) & (ends < 1)]
    ends = ends[:: max(1, len(ends) // 400)]
    # Coverage jumps at the limits of intervals; the lowest values are next to them.
    truths = np.unique(np.concatenate([np.linspace(0, 1, 201), ends - 1e-9, ends + 1e-9]))
    now = np.zeros((len(truths), looks[-1] + 1))
    now[:, 0] = 1.0
    at = dict(zip(looks, sides, strict=True))
    chance = truths[:, None]
    for trials in range(1, looks[-1] + 1):
        after = now * (1 - chance)
        after[:, 1:] += now[:, :-1] * chance
        now = after
        if trials in at:
            low, high = at[trials]
            inside = (low <= chance) & (chance <= high)
            now[:, : trials + 1] *= inside
    return float(now.sum(axis=1).min())


def limits(losing: Integers, trials: Integers, alpha: float) -> tuple[Floats, Floats]:
    """Return the lower and upper Clopper-Pearson limits, elementwise."""
    from scipy.stats import beta

    low = beta.ppf(alpha / 2, np.maximum(losing, 1), trials - losing + 1)
    high = beta.ppf(1 - alpha / 2, losing + 1, np.maximum(trials - losing, 1))
    return np.where(losing == 0, 0.0, low), np.where(losing == trials, 1.0, high)


@cache
def interval(count: Count, design: Design, look: int) -> Interval:
    """Return the interval of a configuration's loss probability at look `look` (from 0)."""
    if count.trials == 0:
        return Interval(low=0.0, high=1.0)
    level = interval_levels(design)[look]
    if count.trials != design.looks[look]:
        # The levels are valid for the planned numbers only. This number differs, because time ran
        # out or some trials do not count. The union bound is valid for every number of trials.
        level = min(level, design.alpha * _weights(design)[look])
    return clopper_pearson(count.losing, count.trials, level)


@cache
def loss_test(a: Count, b: Count) -> float:
    """Return the two-sided p-value of Fisher's exact test for equal loss probabilities."""
    from scipy.stats import fisher_exact

    table = [[a.losing, a.trials - a.losing], [b.losing, b.trials - b.losing]]
    return min(1.0, float(fisher_exact(table).pvalue))


def rank_test(
    a: Sequence[float],
    b: Sequence[float],
    *,
    alternative: Literal["two-sided", "greater"] = "two-sided",
    seed: int = 0,
) -> float:
    """Return the p-value of the Mann-Whitney test; with `greater`, that `a` is larger than `b`.

    Exact without ties; with ties a permutation test, over all permutations if they are few.
    """
    return _rank_test(tuple(a), tuple(b), alternative, seed)


@cache
def _rank_test(
    a: tuple[float, ...],
    b: tuple[float, ...],
    alternative: Literal["two-sided", "greater"],
    seed: int,
) -> float:
    from scipy.stats import PermutationMethod, mannwhitneyu

    if not a or not b or len({*a, *b}) == 1:
        return 1.0
    ties = len({*a, *b}) < len(a) + len(b)
    random = np.random.default_rng(seed)
    method = PermutationMethod(n_resamples=9999, random_state=random) if ties else "exact"
    return float(mannwhitneyu(a, b, alternative=alternative, method=method).pvalue)


def shift(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the Hodges-Lehmann estimate of `b - a`: the median of all pairwise differences."""
    return float(np.median(np.subtract.outer(np.asarray(b), np.asarray(a))))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values with Holm's correction (1979)."""
    adjusted = [0.0] * len(p_values)
    worst = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = worst
    return adjusted


#: Power of the test for which `more_trials` estimates the number of trials.
_POWER = 0.8
#: The upper limit of that estimate.
MAX_TRIALS = 1000

Settled = Literal["different", "alike", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairState:
    """The result for two configurations.

    `p_value` is corrected for pairs and looks, and compared with the design's alpha. `settled`: the
    loss probabilities are `different`, or `alike` (they differ by at most the margin), or neither
    is known (empty).
    """

    p_value: float
    settled: Settled


class Sequential:
    """A group sequential comparison.

    Loss probabilities that differ by at most `margin` count as alike.
    """

    def __init__(self, design: Design, names: Sequence[str], *, margin: float) -> None:
        self.design = design
        self.margin = margin
        self.look = -1
        self.names = list(names)
        #: The last look of each configuration, which determines its interval.
        self.look_of = dict.fromkeys(names, 0)
        self._dropped: set[str] = set()
        self.pairs = {pair: PairState(p_value=1.0, settled="") for pair in combinations(names, 2)}

    def update(self, counts: Mapping[str, Count]) -> None:
        """Analyse the trials so far. Raises ValueError after the last planned look."""
        if self.look + 1 >= len(self.design.looks):
            raise ValueError(f"all {len(self.design.looks)} planned looks have been taken")
        self.look += 1
        self.look_of |= dict.fromkeys(self.open, self.look)
        # Settled pairs stay in the family, which can only make Holm's correction stricter.
        adjusted = holm([loss_test(counts[a], counts[b]) for a, b in self.pairs])
        for (pair, before), p_value in zip(list(self.pairs.items()), adjusted, strict=True):
            corrected = min(1.0, p_value * len(self.design.looks))
            self.pairs[pair] = PairState(
                p_value=min(before.p_value, corrected),
                settled=before.settled or self._settled(pair, counts, corrected),
            )

    def drop(self, name: str) -> None:
        self._dropped.add(name)

    @property
    def open(self) -> list[str]:
        """The configurations that need more trials; a single configuration always does."""
        if not self.pairs:
            return [name for name in self.names if name not in self._dropped]
        needed = {
            name
            for pair, state in self.pairs.items()
            if not state.settled and not self._dropped & set(pair)
            for name in pair
        }
        return [name for name in self.names if name in needed]

    def _settled(
        self, pair: tuple[str, str], counts: Mapping[str, Count], p_value: float
    ) -> Settled:
        if p_value <= self.design.alpha:
            return "different"
        a, b = (interval(counts[name], self.design, self.look_of[name]) for name in pair)
        return "alike" if max(b.high - a.low, a.high - b.low) <= self.margin else ""


def more_trials(a: Count, b: Count, design: Design, *, pairs: int, margin: float) -> int | None:
    """Estimate how many more trials of each would settle a pair at the current rates.

    With 80 % power they give either a significant difference (normal approximation after the
    arcsine transformation, at the level of one look and Holm's strictest factor), or intervals
    within the margin. None if `MAX_TRIALS` would not be enough.
    """
    from scipy.stats import norm

    rates = [(count.losing + 0.5) / (count.trials + 1) for count in (a, b)]
    effect = 2 * abs(math.asin(math.sqrt(rates[0])) - math.asin(math.sqrt(rates[1])))
    z = norm.ppf(1 - design.level / max(pairs, 1) / 2) + norm.ppf(_POWER)
    to_differ = 2 * (z / effect) ** 2 + 2 / effect if effect > 1e-6 else math.inf
    last = interval_levels(design)[-1]
    trials = np.arange(1, MAX_TRIALS + 1)
    (low_a, high_a), (low_b, high_b) = (
        limits(np.rint(trials * count.losing / max(count.trials, 1)).astype(int), trials, last)
        for count in (a, b)
    )
    alike = np.flatnonzero(np.maximum(high_b - low_a, high_a - low_b) <= margin)
    to_be_alike = float(trials[alike[0]]) if alike.size else math.inf
    needed = min(to_differ, to_be_alike)
    if needed > MAX_TRIALS:
        return None
    return max(1, math.ceil(needed) - min(a.trials, b.trials))
