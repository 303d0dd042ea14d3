"""A comparison's plan: which configurations, how often, in which order, at what price."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from statistics import median

from pydantic import BaseModel, ConfigDict

from ackproof.errors import AckproofError, ScenarioError
from ackproof.runs.directory import read_record
from ackproof.scenario.loader import Configured

#: A comparison that may take longer must be wanted: by `--yes`, or by a budget.
WANTED_FROM_S = 3600.0
#: Booting, full ISR, reading the final log and judging, where no earlier run says how long.
_AROUND_S = 30.0


class Plan(BaseModel):
    """What a comparison set out to do: `plan.json`. Resuming it follows it to the letter."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: int = 1
    comparison_id: str
    configurations: list[str]
    #: The faults of each configuration. Nobody chooses those: advice compares like with like.
    faults: dict[str, str] = {}
    seed: int
    #: Trials of each configuration, at most.
    trials: int
    confidence: float
    #: Probabilities to lose that differ by at most this are alike.
    margin: float
    #: Seconds after which no trial begins; None without a limit.
    budget_s: float | None = None
    #: The part of the matrix that was taken; empty for all of it.
    shard: str = ""


def label(configured: Configured, configurations: Sequence[Configured]) -> str:
    """Return what a configuration is called within these."""
    scenario = configured.scenario.name
    if not configured.name:
        return scenario
    several = len({one.scenario.name for one in configurations}) > 1
    return f"{scenario}: {configured.name}" if several else configured.name


def faults_of(configured: Configured) -> str:
    """Return a configuration's faults as text, equal where they are."""
    return "; ".join(fault.model_dump_json() for fault in configured.scenario.faults)


def order(plan: Plan, names: Sequence[str], number: int) -> list[str]:
    """Return the configurations of round `number` (from 1) in the order they are tried.

    Every round tries each once, shuffled: what drifts with time, such as other load on this
    machine, meets all alike. One round alone goes in the order of the file: it shows and does not
    weigh.
    """
    if plan.trials == 1:
        return list(names)
    shuffled = list(names)
    random.Random(f"{plan.seed}/{number}").shuffle(shuffled)  # noqa: S311 - reproducible
    return shuffled


def seconds_of_a_trial(configured: Configured, out: Path) -> float:
    """Return how long a trial takes: as earlier runs of its scenario did, else at most so long."""
    name = configured.scenario.name
    earlier = []
    for record in sorted(out.glob(f"*-{name}*/run.json"))[-20:]:
        try:
            run = read_record(record.parent)
        except AckproofError:
            continue
        if run.finished_at is not None and run.configuration_name == configured.name:
            earlier.append((run.finished_at - run.started_at).total_seconds())
    if earlier:
        return median(earlier)
    workload = configured.scenario.workload
    return _AROUND_S + min(workload.seconds, workload.records / workload.rate)


def require_wanted(
    configurations: Sequence[Configured], plan: Plan, *, out: Path, yes: bool
) -> float:
    """Return how many seconds the plan takes at most.

    Raises ScenarioError with that price if it is high and neither `yes` nor a budget accepts it.
    """
    each = [seconds_of_a_trial(one, out) for one in configurations]
    price = plan.trials * sum(each)
    if price > WANTED_FROM_S and not yes and plan.budget_s is None:
        raise ScenarioError(
            f"{len(configurations)} configurations, {plan.trials} trials each: "
            f"{len(configurations) * plan.trials} runs, up to {span(price)}",
            hint="Accept that with --yes, or set a limit: --budget 1h, or fewer --trials.",
        )
    return price


def span(seconds: float) -> str:
    """Return a long stretch of time: `0:42:00`, `2 days, 3:00:00`."""
    return str(timedelta(seconds=round(seconds)))
