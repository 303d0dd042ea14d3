"""The plan of a comparison: configurations, trials, their order, and how long they may take."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from pydantic import Field

from ackproof.errors import AckproofError, ScenarioError
from ackproof.runs.directory import read_record
from ackproof.scenario.loader import Configured
from ackproof.trials import Record

#: A comparison that may take longer needs `--yes` or a budget.
CONFIRM_FROM_S = 3600.0
#: Estimate of boot, full ISR, reading the final log and judgement, where no stored run tells.
_OVERHEAD_S = 30.0


class ComparisonPlan(Record):
    """`plan.json`: the options of a comparison. A resumed comparison uses them unchanged."""

    schema_version: int = 1
    comparison_id: str
    configurations: list[str]
    #: The faults of each configuration. Recommendations only compare equal faults.
    faults: dict[str, str] = Field(default_factory=dict)
    seed: int
    #: Maximum number of trials of each configuration.
    trials: int
    confidence: float
    #: Loss probabilities that differ by at most this count as alike.
    margin: float
    #: Seconds after which no trial starts; None without a limit.
    budget_s: float | None = None
    #: The selected part of the matrix; empty for the whole matrix.
    shard: str = ""


def label(configured: Configured, configurations: Sequence[Configured]) -> str:
    """Return the name of a configuration, with its scenario if there are several."""
    scenario = configured.scenario.name
    if not configured.name:
        return scenario
    several = len({one.scenario.name for one in configurations}) > 1
    return f"{scenario}: {configured.name}" if several else configured.name


def faults_of(configured: Configured) -> str:
    """Return the faults as text that is equal for equal faults."""
    return "; ".join(fault.model_dump_json() for fault in configured.scenario.faults)


def order(plan: ComparisonPlan, names: Sequence[str], number: int) -> list[str]:
    """Return the order in which round `number` (from 1) runs these configurations.

    Rounds are shuffled, so that drift, such as other load on this machine, affects all
    configurations alike. A single round keeps the order of the file, because no statistics follow.
    """
    if plan.trials == 1:
        return list(names)
    shuffled = list(names)
    random.Random(f"{plan.seed}/{number}").shuffle(shuffled)  # noqa: S311 - reproducible
    return shuffled


def expected_seconds(configured: Configured, out: Path) -> float:
    """Return the median duration of stored runs, or an upper estimate if there are none."""
    name = configured.scenario.name
    stored = []
    for record in sorted(out.glob(f"*-{name}*/run.json"))[-20:]:
        try:
            run = read_record(record.parent)
        except AckproofError:
            continue
        if run.finished_at is not None and run.configuration_name == configured.name:
            stored.append((run.finished_at - run.started_at).total_seconds())
    if stored:
        return median(stored)
    workload = configured.scenario.workload
    return _OVERHEAD_S + min(workload.seconds, workload.records / workload.rate)


def require_confirmed(
    configurations: Sequence[Configured], plan: ComparisonPlan, *, out: Path, yes: bool
) -> float:
    """Return the maximum duration of the plan in seconds.

    Raises ScenarioError if it exceeds `CONFIRM_FROM_S` without `yes` or a budget.
    """
    seconds = plan.trials * sum(expected_seconds(one, out) for one in configurations)
    if seconds > CONFIRM_FROM_S and not yes and plan.budget_s is None:
        raise ScenarioError(
            f"{len(configurations) * plan.trials} runs (configurations: {len(configurations)}, "
            f"trials of each: {plan.trials}) take up to {seconds / 60:.0f} minutes",
            hint="Confirm with --yes, or set a limit: --budget 1h, or fewer --trials.",
        )
    return seconds
