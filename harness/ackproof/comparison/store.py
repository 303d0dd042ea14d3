"""The plan of a comparison, its trials, and the directory from which it resumes.

``runs/<utc>-<scenario>-comparison/``::

    plan.json       the options and configurations
    scenarios/      copies of the scenario files
    trials.jsonl    one line for each finished trial
    comparison.json the statistics over all trials     report.html  junit.xml
"""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from pydantic import Field

from ackproof.errors import AckproofError, ScenarioError
from ackproof.judgement.overview.safer import durability_of
from ackproof.runs.directory import disk_errors, read_plan, read_record, read_verdict, write_model
from ackproof.runs.overview import Safer
from ackproof.runs.verdict import (
    FaultReport,
    Latency,
    Likelihood,
    Processing,
    Record,
    Verdict,
    Word,
)
from ackproof.scenario.loader import Configured, load, load_all
from ackproof.scenario.selection import share
from ackproof.scenario.types import setting_text
from ackproof.trials import Trial, TrialStore, read_trials
from ackproof_faults import NoFault
from ackproof_spark.forensics.cases import OF_LOST_BYTES


class Measures(Record):
    """The measures of one trial. Sends of the probe are not counted.

    `lost_to_cut` of the lost records went with the bytes of which the scenario says how many are
    lost; `cut` is the fault and its parameter, or ''. `stopped`: the fatal errors that ended
    producers. `fault_s`: seconds with at least one fault in force. `recovery_s`:
    the longest time from the heal of a fault to the recovery of its nodes. `safer`: what the model
    advises after this trial.
    """

    verdict: Word
    sent: int
    acked: int
    failed: int
    unknown: int
    lost: int
    lost_to_cut: int
    cut: str
    duplicated: int
    stopped: list[str]
    predicted: Likelihood | None
    findings: int
    duration_s: float
    fault_s: float
    unavailability_s: float
    recovery_s: float | None
    acked_per_s: float
    ack_latency_ms: Latency | None
    ack_latency_at_most_ms: Latency | None = None
    processing: Processing | None = None
    times: Literal["measured", "at most", "unknown"] = "measured"
    #: In order, with their targets.
    faults: list[str] = Field(default_factory=list)
    safer: Safer | None = None

    @property
    def counts(self) -> bool:
        """Whether the trial lost a record or was conclusive."""
        return self.lost > 0 or self.verdict is not Word.INCONCLUSIVE


#: The measures of pairs besides loss; None if a trial has no value.
MEASURES: Mapping[str, Callable[[Measures], float | None]] = {
    "unavailability_s": lambda m: m.unavailability_s if m.times == "measured" else None,
    "recovery_s": lambda m: m.recovery_s,
    "ack_latency_p50_ms": lambda m: m.ack_latency_ms.p50 if m.ack_latency_ms else None,
    "ack_latency_p99_ms": lambda m: m.ack_latency_ms.p99 if m.ack_latency_ms else None,
    "acked_per_s": lambda m: m.acked_per_s,
}


def measures(verdict: Verdict, safer: Safer | None = None) -> Measures:
    metrics, faults = verdict.metrics, verdict.faults
    recoveries = [
        (fault.recovered_at - fault.healed_at).total_seconds()
        for fault in faults
        if fault.recovered_at is not None and fault.healed_at is not None
    ]
    cuts = {fault.window: f"{fault.fault} with {fault.cut}" for fault in faults if fault.cut}
    to_cuts = [
        cause for cause in verdict.causes if cause.case in OF_LOST_BYTES and cause.window in cuts
    ]
    return Measures(
        verdict=verdict.verdict,
        **verdict.sends,
        lost=verdict.observed.get("lost", 0),
        lost_to_cut=sum(cause.count for cause in to_cuts),
        cut=", ".join(
            dict.fromkeys(cuts[cause.window] for cause in to_cuts if cause.window is not None)
        ),
        duplicated=verdict.observed.get("duplicated", 0),
        stopped=[each.error for each in verdict.stopped],
        predicted=verdict.predicted.get("lost"),
        findings=len(verdict.findings),
        duration_s=metrics.duration_s,
        fault_s=fault_seconds(faults),
        unavailability_s=metrics.unavailability_s,
        recovery_s=max(recoveries, default=None),
        acked_per_s=metrics.acked_per_s,
        ack_latency_ms=metrics.ack_latency_ms,
        ack_latency_at_most_ms=metrics.ack_latency_at_most_ms,
        processing=metrics.processing,
        times=metrics.times,
        faults=begun(faults),
        safer=safer,
    )


def begun(faults: Sequence[FaultReport]) -> list[str]:
    """Return the faults in order, as `kill of leader of orders-0`; control faults do nothing."""
    return [str(fault) for fault in faults if fault.fault != NoFault.name]


def fault_seconds(faults: Sequence[FaultReport]) -> float:
    """Return the seconds with at least one verified fault in force; control faults do nothing."""
    windows = sorted(
        (fault.verified_at.timestamp(), fault.healed_at.timestamp())
        for fault in faults
        if fault.fault != NoFault.name and fault.verified_at and fault.healed_at
    )
    seconds, until = 0.0, -math.inf
    for begin, end in windows:
        seconds += max(0.0, end - max(begin, until))
        until = max(end, until)
    return seconds


#: A comparison that may take longer needs `--yes` or a budget.
CONFIRM_FROM_S = 3600.0
#: Estimate of boot, full ISR, reading the final log and judgement.
_OVERHEAD_S = 30.0


class ComparisonPlan(Record):
    """`plan.json`: the options of a comparison. A resumed comparison uses them unchanged."""

    schema_version: int = 1
    comparison_id: str
    configurations: list[str]
    #: The faults of each configuration. Only configurations with equal faults are compared.
    faults: dict[str, str] = Field(default_factory=dict)
    #: The settings of each configuration that determine durability, and those that vary.
    settings: dict[str, dict[str, str]] = Field(default_factory=dict)
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
    """Return the name of a configuration, with its scenario if there are several scenarios."""
    scenario = configured.scenario.name
    if not configured.name:
        return scenario
    several = len({other.scenario.name for other in configurations}) > 1
    return f"{scenario}: {configured.name}" if several else configured.name


def faults_of(configured: Configured) -> str:
    """Return the faults as text that is equal for equal faults."""
    return "; ".join(fault.model_dump_json() for fault in configured.scenario.faults)


def settings_of(configured: Configured) -> dict[str, str]:
    """Return the settings that determine durability, and those that the matrix varies."""
    settings = {"Kafka": configured.scenario.kafka, **durability_of(configured.scenario)}
    return {key: setting_text(value) for key, value in {**settings, **configured.varied}.items()}


def order(plan: ComparisonPlan, names: Sequence[str], number: int) -> list[str]:
    """Return the order of these configurations in round `number` (from 1).

    Rounds are shuffled, so that drift, such as other load on this machine, affects all
    configurations equally. A single round has the order of the file.
    """
    ordered = list(names)
    if plan.trials > 1:
        random.Random(f"{plan.seed}/{number}").shuffle(ordered)  # noqa: S311 - reproducible
    return ordered


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
) -> str:
    """Return how long the plan takes, as a sentence.

    Raises ScenarioError if that exceeds `CONFIRM_FROM_S` without `yes` or a budget.
    """
    seconds = plan.trials * sum(expected_seconds(configured, out) for configured in configurations)
    runs = len(configurations) * plan.trials
    sentence = (
        f"{runs} runs (configurations: {len(configurations)}, trials of each: {plan.trials}) take "
        f"up to {max(1, math.ceil(seconds / 60))} minutes"
    )
    if seconds > CONFIRM_FROM_S and not yes and plan.budget_s is None:
        raise ScenarioError(
            sentence,
            hint="Confirm with --yes, or set a limit: --budget 1h, or fewer --trials.",
        )
    fewer = (
        ", or less, if every pair of configurations is settled before" if plan.trials > 1 else ""
    )
    return f"{sentence}{fewer}."


class ConfigurationTrial(Trial):
    """A finished trial of a configuration; rounds count from 1."""

    configuration: str
    round: int
    measures: Measures | None = None


@dataclass(kw_only=True)
class ComparisonStore(TrialStore[ComparisonPlan, ConfigurationTrial]):
    """The directory of one comparison."""

    configurations: list[Configured]

    def of(self, configuration: str) -> list[ConfigurationTrial]:
        return [trial for trial in self.trials if trial.configuration == configuration]

    def results(self) -> Iterator[tuple[Path, Verdict]]:
        """Yield run directory and verdict of every trial that has a run.

        Raises RunDirectoryError if a run directory has been removed.
        """
        for trial in self.trials:
            if trial.run_id is not None:
                path = self.directory.parent / trial.run_id
                yield path, read_verdict(path)


def create(
    out: Path, plan: ComparisonPlan, configurations: Sequence[Configured]
) -> ComparisonStore:
    """Create the directory of a new comparison. Raises DiskError if it cannot be written."""
    directory = out / plan.comparison_id
    with disk_errors(out):
        (directory / "scenarios").mkdir(parents=True)
        for path in dict.fromkeys(configured.path for configured in configurations):
            shutil.copyfile(path, directory / "scenarios" / path.name)
    write_model(directory / "plan.json", plan)
    return ComparisonStore(directory=directory, plan=plan, configurations=list(configurations))


def resume(directory: Path) -> ComparisonStore:
    """Return an interrupted comparison.

    Raises RunDirectoryError if the directory is not a comparison or damaged, ScenarioError if its
    scenarios are no longer valid.
    """
    plan = read_plan(directory, ComparisonPlan, maker="compare")
    folder = directory / "scenarios"
    files = sorted(folder.glob("*.y*ml"))
    configurations = load(files[0]) if len(files) == 1 else load_all(folder)
    return ComparisonStore(
        directory=directory,
        plan=plan,
        configurations=share(configurations, plan.shard),
        trials=read_trials(directory, ConfigurationTrial),
    )
