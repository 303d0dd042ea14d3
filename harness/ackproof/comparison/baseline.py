"""A baseline: measures of earlier runs by configuration, with which CI compares later runs.

Later runs are worse if a one-sided Mann-Whitney test is significant, with Holm's correction over
all configurations and measures, and the shift exceeds the tolerance. If there are too few runs for
any significant result, the answer is "too few runs", never "no worse".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Literal

from pydantic import ValidationError

from ackproof import safe_files
from ackproof.comparison import statistics
from ackproof.comparison.store import MEASURES, measures
from ackproof.errors import RunDirectoryError
from ackproof.runs.directory import MOST_BYTES
from ackproof.runs.verdict import Record, Verdict, Word

ALPHA = 0.05
#: Measures for which a lower value is worse.
_LESS_IS_WORSE = frozenset({"acked_per_s"})

Samples = dict[str, dict[str, list[float]]]
Judged = Literal["worse", "no worse", "too few runs"]


class Baseline(Record):
    """The file: values by configuration and measure, one for each run."""

    schema_version: Literal[1] = 1
    configurations: Samples


class Change(Record):
    """One measure of a configuration compared with the baseline: medians, corrected p-value."""

    configuration: str
    measure: str
    before: float
    now: float
    p_value: float
    judged: Judged


def samples(verdicts: Sequence[Verdict]) -> Samples:
    """Return the measures of conclusive runs."""
    result: Samples = {}
    for verdict in verdicts:
        if verdict.verdict is Word.INCONCLUSIVE:
            continue
        name = "/".join(part for part in (verdict.scenario, verdict.configuration_name) if part)
        own = result.setdefault(name, {})
        of_run = measures(verdict)
        for measure, get in MEASURES.items():
            value = get(of_run)
            if value is not None:
                own.setdefault(measure, []).append(value)
    return result


def read_baseline(path: Path) -> Baseline:
    """Raise RunDirectoryError if the file is missing or not a baseline."""
    try:
        return Baseline.model_validate_json(safe_files.read(path, most=MOST_BYTES))
    except FileNotFoundError:
        raise RunDirectoryError(
            f"{path}: no such file",
            hint="Write a baseline first: ackproof runs RUN_DIRS --write-baseline FILE",
        ) from None
    except (OSError, ValidationError, ValueError) as error:
        raise RunDirectoryError(
            f"{path} is not a baseline",
            hint="Write one: ackproof runs RUN_DIRS --write-baseline FILE",
        ) from error


def changes(
    baseline: Baseline, now: Mapping[str, Mapping[str, Sequence[float]]], *, tolerance: float
) -> list[Change]:
    """Compare every configuration and measure that occurs in both."""
    pairs = [
        (name, measure, before, now[name][measure])
        for name, of_configuration in baseline.configurations.items()
        if name in now
        for measure, before in of_configuration.items()
        if now[name].get(measure)
    ]
    p_values = [
        statistics.rank_test(
            *((before, after) if measure in _LESS_IS_WORSE else (after, before)),
            alternative="greater",
        )
        for _, measure, before, after in pairs
    ]
    compared = []
    for (name, measure, before, after), p_value in zip(
        pairs, statistics.holm(p_values), strict=True
    ):
        worsening = statistics.shift(before, after) * (-1 if measure in _LESS_IS_WORSE else 1)
        judged: Judged = "no worse"
        if len(pairs) / math.comb(len(before) + len(after), len(after)) > ALPHA:
            judged = "too few runs"
        elif p_value <= ALPHA and worsening > tolerance * abs(median(before)):
            judged = "worse"
        compared.append(
            Change(
                configuration=name,
                measure=measure,
                before=median(before),
                now=median(after),
                p_value=p_value,
                judged=judged,
            )
        )
    return compared
