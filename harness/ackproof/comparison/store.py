"""The directory of a comparison, from which an interrupted comparison resumes.

``runs/<utc>-<scenario>-comparison/``::

    plan.json       the options and configurations
    scenarios/      copies of the scenario files
    trials.jsonl    one line for each finished trial
    comparison.json the statistics over all trials     report.html  junit.xml
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ackproof.comparison.measures import Measures
from ackproof.comparison.plan import ComparisonPlan
from ackproof.runs.directory import disk_errors, read_plan, read_verdict, write_model
from ackproof.runs.verdict import Verdict
from ackproof.scenario.loader import Configured, load, load_all
from ackproof.scenario.shards import Shard, share
from ackproof.trials import Trial, TrialStore, read_trials


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
        for path in dict.fromkeys(one.path for one in configurations):
            shutil.copyfile(path, directory / "scenarios" / path.name)
    write_model(directory / "plan.json", plan)
    return ComparisonStore(directory=directory, plan=plan, configurations=list(configurations))


def resume(directory: Path) -> ComparisonStore:
    """Return an interrupted comparison.

    Raises RunDirectoryError if the directory holds no comparison or is damaged, ScenarioError if
    its scenarios are no longer valid.
    """
    plan = read_plan(directory, ComparisonPlan, maker="compare")
    folder = directory / "scenarios"
    files = sorted(folder.glob("*.y*ml"))
    configurations = load(files[0]) if len(files) == 1 else load_all(folder)
    return ComparisonStore(
        directory=directory,
        plan=plan,
        configurations=share(configurations, Shard.parse(plan.shard)),
        trials=read_trials(directory, ConfigurationTrial),
    )
