"""Predictions for clients, each with its reason in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ackproof_model import Likelihood
from ackproof_spark.anomaly import Anomaly

#: An anomaly, its prediction, and the reason.
ClientPrediction = tuple[Anomaly, Likelihood, str]

#: At most so many perturbations are combined.
IN_ALL = 2


class _Left(Protocol):
    @property
    def left(self) -> tuple[int, ...]: ...


def spent(
    kinds: Sequence[str], budgets: Sequence[int], trace: Sequence[tuple[str, _Left]]
) -> list[str]:
    """Return the kinds of perturbations that a trace uses."""
    left = trace[-1][1].left
    return [kind for kind, n, rest in zip(kinds, budgets, left, strict=False) if rest < n]


def in_words(kinds: Iterable[str], words: Mapping[str, str], causes: Mapping[str, str]) -> str:
    """Return perturbations as `a late marker (isolate) and a failover (kill)`."""
    parts = [
        words[kind] + (f" ({causes[kind]})" if causes.get(kind) else "")
        for kind in dict.fromkeys(kinds)
    ]
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
