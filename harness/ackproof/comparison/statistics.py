"""The statistics of a comparison; the unit is the trial, never the record.

Records that are lost in one failover are one event. So a trial loses or it does not, each
configuration has a probability of that, and a comparison looks at the trials a few times on its
way, to stop once it knows enough. Whoever looks often and stops when it suits finds differences
where there are none. Two things keep the promised confidence:

- **Tests**: a comparison is planned with at most K looks, and each is tested at `alpha / K`, with
  Holm's correction over the pairs (Pocock 1977 in its simplest form: the union bound over the
  looks, so it holds whatever the dependence between looks, pairs and the stopping itself).
- **Intervals**: Clopper-Pearson at each look, as repeated confidence intervals (Jennison and
  Turnbull 1989). The error is spent late: `gamma_k = c * alpha * (t_k**3 - t_(k-1)**3)`, where
  t_k is the look's share of the planned trials. c = 1 is the union bound; the largest c is taken
  for which all intervals of a configuration *together* hold the truth with the confidence asked
  for, for every truth (computed from the binomial distribution, not simulated). So the interval at
  hand holds it however the stopping was decided.

Both are conservative: what they promise is a bound, not an estimate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: A comparison is looked at so many times, and not before so many trials.
LOOKS = 5
FIRST_LOOK = 3
#: The chance to see a difference that is there, when more trials are asked for.
_POWER = 0.8
#: More trials than these are nobody's plan.
MOST_TRIALS = 1000
_SPENDING = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A confidence interval of a probability."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many of so many trials lost a record."""

    losing: int
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """When a comparison is looked at: after `looks` trials of each configuration.

    `alpha` is the error allowed in all: 0.05 for 95 % confidence.
    """

    looks: tuple[int, ...]
    alpha: float

    @property
    def level(self) -> float:
        """The level at which every look tests."""
        return self.alpha / len(self.looks)


def design(trials: int, *, confidence: float = 0.95) -> Design:
    """Return the plan for at most `trials` of each configuration."""
    looks = {math.ceil(trials * k / LOOKS) for k in range(1, LOOKS)}
    return Design(
        looks=(*sorted(n for n in looks if FIRST_LOOK <= n < trials), trials),
        alpha=1 - confidence,
    )


def clopper_pearson(losing: int, trials: int, alpha: float) -> Interval:
    """Return the exact two-sided interval of one fixed number of trials."""
    from scipy.stats import beta

    low = beta.ppf(alpha / 2, losing, trials - losing + 1) if losing else 0.0
    high = beta.ppf(1 - alpha / 2, losing + 1, trials - losing) if losing < trials else 1.0
    return Interval(low=float(low), high=float(high))


@cache
def interval_levels(plan: Design) -> tuple[float, ...]:
    """Return the error of the Clopper-Pearson interval at each look; see the module."""
    weights = _weights(plan)

    def levels(factor: float) -> tuple[float, ...]:
        return tuple(min(factor * plan.alpha * weight, 0.9) for weight in weights)

    low, high = 1.0, 1.0
    while high < 4 and _worst_coverage(plan.looks, levels(high)) >= 1 - plan.alpha:
        low, high = high, high * 1.5
    if low == high:
        return levels(1.0)
    for _ in range(6):
        middle = (low + high) / 2
        if _worst_coverage(plan.looks, levels(middle)) >= 1 - plan.alpha:
            low = middle
        else:
            high = middle
    return levels(low)


def _weights(plan: Design) -> list[float]:
    """Return which part of the intervals' error each look spends; together 1."""
    spent = [(trials / plan.looks[-1]) ** _SPENDING for trials in plan.looks]
    return [now - before for now, before in zip(spent, [0.0, *spent], strict=False)]


def _worst_coverage(looks: Sequence[int], levels: Sequence[float]) -> float:
    """Return the least probability, over all truths, that every look's interval holds it."""
    limits = [_limits(n, level) for n, level in zip(looks, levels, strict=True)]
    ends = np.concatenate([side for pair in limits for side in pair])
    ends = ends[(ends > 0) & (ends < 1)]
    ends = ends[:: max(1, len(ends) // 400)]
    # Coverage jumps where an interval ends: the worst truths are just beside these places.
    truths = np.unique(np.concatenate([np.linspace(0, 1, 201), ends - 1e-9, ends + 1e-9]))
    now = np.zeros((len(truths), looks[-1] + 1))
    now[:, 0] = 1.0
    at = dict(zip(looks, limits, strict=True))
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


def _limits(trials: int, alpha: float) -> tuple[Floats, Floats]:
    """Return Clopper-Pearson's lower and upper ends for 0 to `trials` losing trials."""
    from scipy.stats import beta

    losing = np.arange(trials + 1)
    low = np.zeros(trials + 1)
    low[1:] = beta.ppf(alpha / 2, losing[1:], trials - losing[1:] + 1)
    high = np.ones(trials + 1)
    high[:-1] = beta.ppf(1 - alpha / 2, losing[:-1] + 1, trials - losing[:-1])
    return low, high


@cache
def interval(count: Count, plan: Design, look: int) -> Interval:
    """Return the interval of a configuration's probability to lose, at look `look` (from 0)."""
    if count.trials == 0:
        return Interval(low=0.0, high=1.0)
    level = interval_levels(plan)[look]
    if count.trials != plan.looks[look]:
        # Not what was computed with: time ran out, or some trials do not count. The union bound
        # needs no number of trials.
        level = min(level, plan.alpha * _weights(plan)[look])
    return clopper_pearson(count.losing, count.trials, level)


@cache
def loss_test(a: Count, b: Count) -> float:
    """Return Fisher's exact p-value (two-sided) that both lose equally often."""
    from scipy.stats import fisher_exact

    table = [[a.losing, a.trials - a.losing], [b.losing, b.trials - b.losing]]
    return min(1.0, float(fisher_exact(table).pvalue))


def rank_test(a: Sequence[float], b: Sequence[float], *, seed: int = 0) -> float:
    """Return the Mann-Whitney p-value (two-sided) that neither tends to be larger.

    Exact without ties; with ties by permutation, of all arrangements if they are few enough.
    """
    return _mann_whitney(a, b, "two-sided", seed)


def larger_test(a: Sequence[float], b: Sequence[float], *, seed: int = 0) -> float:
    """Return the Mann-Whitney p-value (one-sided) that `a` does not tend to be larger than `b`."""
    return _mann_whitney(a, b, "greater", seed)


def _mann_whitney(a: Sequence[float], b: Sequence[float], alternative: str, seed: int) -> float:
    from scipy.stats import PermutationMethod, mannwhitneyu

    if not a or not b or len({*a, *b}) == 1:
        return 1.0
    ties = len({*a, *b}) < len(a) + len(b)
    method = (
        PermutationMethod(n_resamples=9999, random_state=np.random.default_rng(seed))
        if ties
        else "exact"
    )
    return float(mannwhitneyu(a, b, alternative=alternative, method=method).pvalue)


def middle(values: Sequence[float]) -> float:
    """Return the median."""
    return float(np.median(values))


def shift(a: Sequence[float], b: Sequence[float]) -> float:
    """Return by how much `b` is larger: Hodges and Lehmann's median of all differences."""
    return float(np.median(np.subtract.outer(np.asarray(b), np.asarray(a))))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values corrected for how many there are (Holm 1979), in the same order."""
    adjusted = [0.0] * len(p_values)
    worst = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = worst
    return adjusted


Settled = Literal["different", "alike", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairState:
    """What is known of two configurations' losses.

    `p_value` is corrected for pairs and looks: to be held against the plan's alpha. `settled`:
    they lose differently often; or they lose alike, which is that their probabilities are within
    the margin of each other; or neither is known.
    """

    a: str
    b: str
    p_value: float
    settled: Settled


class Sequential:
    """A comparison as it goes on: which pairs are settled, and so who needs more trials.

    `margin`: configurations whose probabilities to lose differ by at most this are alike.
    """

    def __init__(self, plan: Design, names: Sequence[str], *, margin: float) -> None:
        self.plan = plan
        self.margin = margin
        self.look = -1
        self.names = list(names)
        #: At which look a configuration's trials ended so far: its interval is that look's.
        self.look_of = dict.fromkeys(names, 0)
        self._aside: set[str] = set()
        self.pairs = {
            (a, b): PairState(a=a, b=b, p_value=1.0, settled="") for a, b in combinations(names, 2)
        }

    def update(self, counts: Mapping[str, Count]) -> None:
        """Look at the trials so far. Raises ValueError beyond the planned number of looks."""
        if self.look + 1 >= len(self.plan.looks):
            raise ValueError(f"the plan has {len(self.plan.looks)} looks, and all are taken")
        self.look += 1
        self.look_of |= dict.fromkeys(self.open, self.look)
        # Settled pairs stay in the family: their p-values can only make Holm stricter or equal.
        adjusted = holm([loss_test(counts[a], counts[b]) for a, b in self.pairs])
        for (pair, before), p_value in zip(list(self.pairs.items()), adjusted, strict=True):
            corrected = min(1.0, p_value * len(self.plan.looks))
            self.pairs[pair] = PairState(
                a=pair[0],
                b=pair[1],
                p_value=min(before.p_value, corrected),
                settled=before.settled or self._settled(pair, counts, corrected),
            )

    def set_aside(self, name: str) -> None:
        """Want no more trials of a configuration: none can be had."""
        self._aside.add(name)

    @property
    def open(self) -> list[str]:
        """The configurations that need more trials, in the order given; all if there is one."""
        if not self.pairs:
            return [name for name in self.names if name not in self._aside]
        needed = {
            name
            for pair, state in self.pairs.items()
            if not state.settled and not self._aside & set(pair)
            for name in pair
        }
        return [name for name in self.names if name in needed]

    def _settled(
        self, pair: tuple[str, str], counts: Mapping[str, Count], p_value: float
    ) -> Settled:
        if p_value <= self.plan.alpha:
            return "different"
        a, b = (interval(counts[name], self.plan, self.look_of[name]) for name in pair)
        return "alike" if max(b.high - a.low, a.high - b.low) <= self.margin else ""


def more_trials(a: Count, b: Count, plan: Design, *, pairs: int, margin: float) -> int | None:
    """Return about how many more trials of each would settle a pair, if they go on like this.

    Four times of five: by a difference seen (normal approximation after the arcsine, at the level
    of one look and the strictest of Holm's), or by intervals within the margin. None if more than
    `MOST_TRIALS` would not do.
    """
    from scipy.stats import norm

    rates = [(count.losing + 0.5) / (count.trials + 1) for count in (a, b)]
    effect = 2 * abs(math.asin(math.sqrt(rates[0])) - math.asin(math.sqrt(rates[1])))
    z = norm.ppf(1 - plan.level / max(pairs, 1) / 2) + norm.ppf(_POWER)
    to_differ = 2 * (z / effect) ** 2 + 2 / effect if effect > 1e-6 else math.inf
    last = interval_levels(plan)[-1]
    to_be_alike = math.inf
    for trials in range(1, MOST_TRIALS + 1):
        ends = [
            clopper_pearson(round(trials * count.losing / max(count.trials, 1)), trials, last)
            for count in (a, b)
        ]
        if max(ends[1].high - ends[0].low, ends[0].high - ends[1].low) <= margin:
            to_be_alike = trials
            break
    needed = min(to_differ, to_be_alike)
    if needed > MOST_TRIALS:
        return None
    return max(1, math.ceil(needed) - min(a.trials, b.trials))
