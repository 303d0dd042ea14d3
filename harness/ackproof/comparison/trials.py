"""What came of each trial, on disk as it ends: a comparison that was interrupted goes on there.

``<out>/<utc>-<scenario>-comparison/``::

    plan.json       what was set out to be done
    scenarios/      the scenario files as they were then
    trials.jsonl    a line for each trial that ended
    comparison.json what they say together          report.html  junit.xml
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ackproof.comparison.plan import Plan
from ackproof.runs.directory import (
    append_line,
    disk_errors,
    fresh_name,
    read_lines,
    read_plan,
    write_model,
)
from ackproof.runs.verdict import (
    Latency,
    Outlook,
    Verdict,
    Word,
)
from ackproof.scenario.loader import Configured, load, load_all
from ackproof.scenario.shards import Shard, share


class Measures(BaseModel):
    """What one trial says about its configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    verdict: Word
    lost: int
    acked: int
    duplicated: int
    predicted: Outlook | None
    findings: int
    unavailability_s: float
    #: Share of the trial in which the worst partition acked.
    availability: float
    #: Longest time from the heal of a fault until everything it struck worked again.
    recovery_s: float | None
    acked_per_s: float
    ack_latency_ms: Latency | None

    @property
    def counts(self) -> bool:
        """Whether it says if records are lost: a loss is definite, none only if conclusive."""
        return self.lost > 0 or self.verdict is not Word.INCONCLUSIVE


class Trial(BaseModel):
    """One trial that ended: with a run, or with the reason why there is none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    configuration: str
    round: int
    run_id: str | None = None
    error: str = ""
    seconds: float
    measures: Measures | None = None


def measures(verdict: Verdict) -> Measures:
    """Return what a verdict contributes to a comparison."""
    metrics = verdict.metrics
    down = metrics.unavailability_s / metrics.duration_s if metrics.duration_s else 0.0
    recoveries = [
        (fault.recovered_at - fault.healed_at).total_seconds()
        for fault in verdict.faults
        if fault.recovered_at is not None and fault.healed_at is not None
    ]
    return Measures(
        verdict=verdict.verdict,
        lost=verdict.observed.get("lost", 0),
        acked=verdict.observed.get("acked", 0),
        duplicated=verdict.observed.get("duplicated", 0),
        predicted=verdict.predicted.get("lost"),
        findings=len(verdict.findings),
        unavailability_s=metrics.unavailability_s,
        availability=1 - min(1.0, down),
        recovery_s=max(recoveries, default=None),
        acked_per_s=metrics.acked_per_s,
        ack_latency_ms=metrics.ack_latency_ms,
    )


class Store:
    """The directory of one comparison."""

    def __init__(self, directory: Path, plan: Plan, configurations: Sequence[Configured]) -> None:
        self.directory = directory
        self.plan = plan
        self.configurations = list(configurations)
        self.trials: list[Trial] = []

    def add(self, trial: Trial) -> None:
        """Keep a trial, in memory and on disk."""
        self.trials.append(trial)
        append_line(self.directory / "trials.jsonl", trial)

    def done(self, configuration: str, number: int) -> Trial | None:
        """Return the trial of a configuration in a round, None if it has not ended yet."""
        for trial in self.trials:
            if (trial.configuration, trial.round) == (configuration, number):
                return trial
        return None


def create(
    out: Path,
    plan: Plan,
    configurations: Sequence[Configured],
) -> Store:
    """Make the directory of a new comparison. Raises DiskError if it cannot be written."""
    directory = out / plan.comparison_id
    with disk_errors(out):
        (directory / "scenarios").mkdir(parents=True)
        for path in dict.fromkeys(one.path for one in configurations):
            shutil.copyfile(path, directory / "scenarios" / path.name)
    write_model(directory / "plan.json", plan)
    return Store(directory, plan, configurations)


def resume(directory: Path) -> Store:
    """Return an interrupted comparison as it was left.

    A trial that was cut short has no line and is tried again. Raises RunDirectoryError if it is
    no comparison or a damaged one, ScenarioError if its scenarios are no longer legal.
    """
    plan = read_plan(directory, Plan, maker="compare")
    folder = directory / "scenarios"
    files = sorted(folder.glob("*.y*ml"))
    configurations = load(files[0]) if len(files) == 1 else load_all(folder)
    configurations = share(configurations, Shard.parse(plan.shard))
    store = Store(directory, plan, configurations)
    store.trials = read_trials(directory)
    return store


def read_trials(directory: Path) -> list[Trial]:
    """Return the trials that ended; a last line that was cut short did not end."""
    return read_lines(directory / "trials.jsonl", Trial)


def name(scenario: str, now: datetime, taken: Path) -> str:
    """Return a fresh name for a comparison's directory under `taken`."""
    return fresh_name(taken, scenario, "comparison", now)
