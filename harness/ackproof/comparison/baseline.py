"""A baseline: what earlier runs cost, so that CI notices when it becomes more, beyond noise.

For each configuration a baseline holds the measures of some runs. Later runs are worse if a
one-sided Mann-Whitney test says so, corrected for all configurations and measures (Holm), and the
shift is more than the tolerance. The test needs enough runs on both sides to be able to say so
at all: with too few, the answer is inconclusive, never "no worse".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ackproof.comparison import statistics
from ackproof.comparison.summary import MEASURES
from ackproof.comparison.trials import measures
from ackproof.errors import RunDirectoryError
from ackproof.runs.verdict import Verdict, Word

ALPHA = 0.05
#: Measures of which less is worse.
_LESS_IS_WORSE = frozenset({"acked_per_s"})

Samples = dict[str, dict[str, list[float]]]


class Baseline(BaseModel):
    """The file: for each configuration, each measure's values over some runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    configurations: Samples


class Change(BaseModel):
    """One measure of one configuration, against the baseline; `p_value` is corrected."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    configuration: str
    measure: str
    before: float
    now: float
    p_value: float
    judged: Literal["worse", "no worse", "too few runs"]


def samples(verdicts: Sequence[Verdict]) -> Samples:
    """Return the measures of conclusive runs, by configuration and measure."""
    found: Samples = {}
    for verdict in verdicts:
        if verdict.verdict is Word.INCONCLUSIVE:
            continue
        name = "/".join(part for part in (verdict.scenario, verdict.configuration_name) if part)
        own = found.setdefault(name, {})
        of_run = measures(verdict)
        for measure, get in MEASURES.items():
            value = get(of_run)
            if value is not None:
                own.setdefault(measure, []).append(value)
    return found


def read_baseline(path: Path) -> Baseline:
    """Return the baseline in a file; RunDirectoryError if it is none."""
    try:
        return Baseline.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunDirectoryError(
            f"{path}: no such baseline",
            hint="Write one: ackproof baseline write RUN_DIRS --to FILE",
        ) from None
    except (OSError, ValidationError, ValueError) as error:
        raise RunDirectoryError(f"{path} is no baseline: {error}") from error


def changes(
    baseline: Baseline, now: Mapping[str, Mapping[str, Sequence[float]]], *, tolerance: float
) -> list[Change]:
    """Return every measure that both have, judged; configurations only one has are left out."""
    pairs = [
        (name, measure, before, now[name][measure])
        for name, of_configuration in baseline.configurations.items()
        if name in now
        for measure, before in of_configuration.items()
        if now[name].get(measure)
    ]
    p_values = [
        statistics.larger_test(after, before)
        if measure not in _LESS_IS_WORSE
        else statistics.larger_test(before, after)
        for _, measure, before, after in pairs
    ]
    return [
        Change(
            configuration=name,
            measure=measure,
            before=statistics.middle(before),
            now=statistics.middle(after),
            p_value=p_value,
            judged=_judged(
                before,
                after,
                p_value=p_value,
                tests=len(pairs),
                least_shift=tolerance * abs(statistics.middle(before)),
                less_is_worse=measure in _LESS_IS_WORSE,
            ),
        )
        for (name, measure, before, after), p_value in zip(
            pairs, statistics.holm(p_values), strict=True
        )
    ]


def _judged(
    before: Sequence[float],
    now: Sequence[float],
    *,
    p_value: float,
    tests: int,
    least_shift: float,
    less_is_worse: bool,
) -> Literal["worse", "no worse", "too few runs"]:
    if tests / math.comb(len(before) + len(now), len(now)) > ALPHA:
        return "too few runs"
    shift = statistics.shift(before, now) * (-1 if less_is_worse else 1)
    return "worse" if p_value <= ALPHA and shift > least_shift else "no worse"
