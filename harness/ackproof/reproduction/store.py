"""What a shrinking set out to do, what was tried, and what came of it; kept in one directory.

``runs/<utc>-<scenario>-shrink/``: ``plan.json``, ``scenario.yaml`` (all steps, as they were
repeated), ``trials.jsonl`` (a line for each trial that ended), ``runs/`` (the trials' runs), and
once something lost again ``minimal.yaml``, ``story.md`` and ``shrink.json``.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ackproof.runs.directory import (
    append_line,
    disk_errors,
    read_lines,
    read_plan,
    write_model,
)
from ackproof.runs.verdict import Word
from ackproof.scenario.loader import Configured, dump, load
from ackproof.scenario.model import Scenario

Ended = Literal["minimal", "budget", "interrupted", "not-again"]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Plan(_Record):
    """What a shrinking set out to do: `plan.json`."""

    schema_version: int = 1
    shrink_id: str
    #: The run that lost.
    run_id: str
    #: The anomaly that must be seen again.
    anomaly: str
    #: Trials of each candidate, at most; it loses if at least `losses` of them do.
    trials: int
    losses: int


class Trial(_Record):
    """One trial of a candidate that ended: with a run, or with the reason why there is none."""

    candidate: str
    what: str
    run_id: str | None = None
    #: How many anomalies of the wanted kind were seen.
    count: int = 0
    sent: int = 0
    verdict: Word | None = None
    error: str = ""
    seconds: float


class Answer(_Record):
    """Whether a candidate loses: in so many of its trials, or not at all by the model's rules."""

    what: str
    steps: list[str]
    loses: bool
    losing: int = 0
    trials: int = 0
    #: The model calls the anomaly impossible there, so it was not run.
    excluded: bool = False

    @property
    def told(self) -> str:
        """The answer in words."""
        if self.excluded:
            return "impossible by the model, not run"
        return f"lost in {self.losing} of {self.trials} trials"


class Change(_Record):
    """A number that was lessened."""

    what: str
    before: str
    after: str


class Shrunk(_Record):
    """What came of a shrinking: `shrink.json`. `ended`: why, `minimal` if nothing is left to try.

    `steps`: all that there were, in words, by id. `kept`: the ids of those that are left.
    `excluded`: candidates that the model kept from being run; `spared`: the trials that those
    would have taken at least. `losing`, `trials`: of the smallest scenario that loses.
    """

    schema_version: int = 1
    shrink_id: str
    run_id: str
    scenario: str
    anomaly: str
    rule: str
    ended: Ended
    steps: dict[str, str]
    kept: list[str]
    changes: list[Change]
    answers: list[Answer]
    excluded: int
    spared: int
    trials_run: int
    losing: int
    trials: int
    #: The run of `minimal.yaml` that lost most, under `runs/`.
    example: str | None = None
    minimal: str | None = None
    notes: list[str] = []


class Store:
    """The directory of one shrinking."""

    def __init__(self, directory: Path, plan: Plan, scenario: Scenario) -> None:
        self.directory = directory
        self.plan = plan
        self.scenario = scenario
        self.trials: list[Trial] = []

    def add(self, trial: Trial) -> None:
        """Keep a trial, in memory and on disk."""
        self.trials.append(trial)
        append_line(self.directory / "trials.jsonl", trial)

    def of(self, candidate: str) -> list[Trial]:
        """Return the trials of a candidate that ended with a run."""
        return [one for one in self.trials if one.candidate == candidate and one.run_id]


def candidate_key(scenario: Scenario) -> str:
    """Return what tells one candidate from another: everything but its name and description."""
    document = scenario.model_dump_json(by_alias=True, exclude={"matrix", "name", "description"})
    return hashlib.sha256(document.encode()).hexdigest()[:16]


def create(out: Path, plan: Plan, configured: Configured) -> Store:
    """Make the directory of a new shrinking. Raises DiskError if it cannot be written."""
    directory = out / plan.shrink_id
    with disk_errors(out):
        directory.mkdir(parents=True)
        dump(configured.scenario, directory / "scenario.yaml")
    write_model(directory / "plan.json", plan)
    return Store(directory, plan, configured.scenario)


def resume(directory: Path) -> tuple[Store, Configured]:
    """Return an interrupted shrinking as it was left, and what it shrinks.

    A trial that was cut short is tried again.
    Raises RunDirectoryError if it is none, or a damaged one.
    """
    plan = read_plan(directory, Plan, maker="shrink")
    [configured] = load(directory / "scenario.yaml")
    store = Store(directory, plan, configured.scenario)
    store.trials = read_lines(directory / "trials.jsonl", Trial)
    return store, configured
