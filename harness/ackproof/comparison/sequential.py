"""Group sequential comparison: decides after each look which pairs are settled."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from ackproof.comparison.statistics import (
    Count,
    Design,
    holm,
    interval,
    interval_levels,
    limits,
    loss_test,
)

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

    a: str
    b: str
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
        self.pairs = {
            (a, b): PairState(a=a, b=b, p_value=1.0, settled="") for a, b in combinations(names, 2)
        }

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
                a=pair[0],
                b=pair[1],
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
