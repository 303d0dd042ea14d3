"""The directory of a shrink, from which an interrupted shrink resumes.

``runs/<utc>-<scenario>-shrink/``: ``plan.json``, ``scenario.yaml`` (the replay with all steps),
``trials.jsonl`` (one line for each finished trial), ``runs/`` (the runs of the trials), and, once a
trial has lost again, ``minimal.yaml``, ``story.md`` and ``shrink.json``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from ackproof.runs.directory import disk_errors, read_plan, write_model
from ackproof.runs.verdict import Word
from ackproof.scenario.loader import Configured, dump, load
from ackproof.scenario.model import Scenario
from ackproof.trials import Record, Trial, TrialStore, read_trials


class ShrinkPlan(Record):
    """`plan.json`: the options of a shrink."""

    schema_version: int = 1
    shrink_id: str
    #: The run to shrink.
    run_id: str
    #: The anomaly that must occur again.
    anomaly: str
    #: Maximum number of trials of each candidate; it loses if at least `losses` of them lose.
    trials: int
    losses: int


class CandidateTrial(Trial):
    """A finished trial of a candidate; `count` is the number of records with the anomaly."""

    candidate: str
    what: str
    count: int = 0
    sent: int = 0
    verdict: Word | None = None


@dataclass(kw_only=True)
class ShrinkStore(TrialStore[ShrinkPlan, CandidateTrial]):
    """The directory of one shrink. `configured` is the replay with all steps."""

    configured: Configured

    def of(self, candidate: str) -> list[CandidateTrial]:
        """Return the trials of a candidate that have a run."""
        return [one for one in self.trials if one.candidate == candidate and one.run_id]


def candidate_key(scenario: Scenario) -> str:
    """Return a hash of the scenario without its name and description."""
    document = scenario.model_dump_json(by_alias=True, exclude={"matrix", "name", "description"})
    return hashlib.sha256(document.encode()).hexdigest()[:16]


def create(out: Path, plan: ShrinkPlan, configured: Configured) -> ShrinkStore:
    """Create the directory of a new shrink. Raises DiskError if it cannot be written."""
    directory = out / plan.shrink_id
    with disk_errors(out):
        directory.mkdir(parents=True)
        dump(configured.scenario, directory / "scenario.yaml")
    write_model(directory / "plan.json", plan)
    return ShrinkStore(directory=directory, plan=plan, configured=configured)


def resume(directory: Path) -> ShrinkStore:
    """Return an interrupted shrink.

    Raises RunDirectoryError if the directory holds no shrink or is damaged.
    """
    plan = read_plan(directory, ShrinkPlan, maker="shrink")
    [configured] = load(directory / "scenario.yaml")
    trials = read_trials(directory, CandidateTrial)
    return ShrinkStore(directory=directory, plan=plan, configured=configured, trials=trials)
