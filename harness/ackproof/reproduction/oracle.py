"""Decides whether a candidate loses: by the model if it excludes the anomaly, else by trials.

A candidate loses if at least `losses` of at most `trials` trials have the anomaly. Trials stop when
the result is decided, and every answer is cached. A trial with the anomaly counts even if it had
other problems. A trial without it counts as not losing, even if it was inconclusive.

The answers are stored in the directory of the shrink, from which an interrupted shrink resumes.
``runs/<utc>-<scenario>-shrink/``: ``plan.json``, ``scenario.yaml`` (the replay with all steps),
``trials.jsonl`` (one line for each finished trial), ``runs/`` (the runs of the trials), and, once a
trial has lost again, ``minimal.yaml``, ``story.md`` and ``shrink.json``.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.markup import escape

from ackproof.errors import AckproofError
from ackproof.prediction.predict import predict
from ackproof.progress import Reporter
from ackproof.reproduction.summary import Answer
from ackproof.runs.directory import PredictionRecord, disk_errors, read_plan, write_model
from ackproof.runs.verdict import Likelihood, Record, Verdict, Word
from ackproof.scenario.loader import Configured, dump, load
from ackproof.scenario.model import Scenario
from ackproof.trials import GIVE_UP_AFTER, RunTrial, Trial, TrialStore, attempt, read_trials


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
        return [trial for trial in self.trials if trial.candidate == candidate and trial.run_id]


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

    Raises RunDirectoryError if the directory is not a shrink or damaged.
    """
    plan = read_plan(directory, ShrinkPlan, maker="shrink")
    [configured] = load(directory / "scenario.yaml")
    trials = read_trials(directory, CandidateTrial)
    return ShrinkStore(directory=directory, plan=plan, configured=configured, trials=trials)


#: Maximum number of states that the model searches for one candidate, about a second.
_MAX_STATES = 20_000

Predict = Callable[[Scenario], PredictionRecord]


class BudgetSpentError(Exception):
    """The time budget is used up: no further trial may start."""


def predict_briefly(scenario: Scenario) -> PredictionRecord:
    return predict(scenario, max_states=_MAX_STATES)


class LossOracle:
    """Decides whether candidates lose, and caches every answer.

    `guided`: candidates for which the model predicts `impossible` are not run. `deadline` is in
    seconds of `time.monotonic()`.
    """

    def __init__(
        self,
        store: ShrinkStore,
        run_trial: RunTrial,
        reporter: Reporter,
        *,
        deadline: float | None = None,
        predict: Predict = predict_briefly,
    ) -> None:
        self.store = store
        self.guided = True
        self.answers: dict[str, Answer] = {}
        self._run_trial = run_trial
        self._reporter = reporter
        self._deadline = deadline
        self._predict = predict
        self._predictions: dict[str, PredictionRecord] = {}

    def loses(self, scenario: Scenario, what: str, *, always: bool = False) -> bool:
        """Return whether the anomaly occurs again; `what` describes the candidate.

        With `always` it must occur in every trial, else in `plan.losses` of them. Raises
        BudgetSpentError after the deadline, AckproofError if trials cannot be run.
        """
        key = candidate_key(scenario)
        if key not in self.answers:
            needed = self.store.plan.trials if always else self.store.plan.losses
            self.answers[key] = answer = self._decide(scenario, key, what, needed=needed)
            colour = "red" if answer.loses else "green"
            self._reporter.note(f"  {escape(what)}: [{colour}]{answer.text}[/]")
        return self.answers[key].loses

    def answer(self, scenario: Scenario) -> Answer | None:
        return self.answers.get(candidate_key(scenario))

    def prediction(self, scenario: Scenario) -> Likelihood:
        return self._predicted(scenario).predicted.get(self.store.plan.anomaly, "possible")

    def explained(self, scenario: Scenario) -> bool:
        """Whether the model has a trace to the anomaly; an unfinished search excludes nothing."""
        traced = bool(self._predicted(scenario).prediction.trace)
        traced = traced or self.store.plan.anomaly != "lost"
        return self.prediction(scenario) != "impossible" and traced

    def _predicted(self, scenario: Scenario) -> PredictionRecord:
        key = candidate_key(scenario)
        if key not in self._predictions:
            self._predictions[key] = self._predict(scenario)
        return self._predictions[key]

    def _decide(self, scenario: Scenario, key: str, what: str, *, needed: int) -> Answer:
        steps = [fault.id for fault in scenario.faults]
        if self.guided and self.prediction(scenario) == "impossible":
            return Answer(what=what, steps=steps, loses=False, excluded=True)
        plan = self.store.plan
        finished = self.store.of(key)
        while not _decided(finished, plan.trials, needed):
            self._run_one(scenario, key, what, number=len(finished) + 1)
            finished = self.store.of(key)
        losing = _losing(finished)
        return Answer(
            what=what, steps=steps, loses=losing >= needed, losing=losing, trials=len(finished)
        )

    def _run_one(self, scenario: Scenario, key: str, what: str, *, number: int) -> None:
        def run_in_phase(configured: Configured) -> tuple[Path, Verdict]:
            with self._reporter.phase(f"{what}: trial {number}"):
                return self._run_trial(configured)

        configured = replace(self.store.configured, scenario=scenario)
        for failures in range(1, GIVE_UP_AFTER + 1):
            if self._deadline is not None and time.monotonic() >= self._deadline:
                raise BudgetSpentError
            result, seconds = attempt(run_in_phase, configured)
            trial = CandidateTrial(candidate=key, what=what, seconds=seconds)
            if isinstance(result, AckproofError):
                self.store.add(trial.model_copy(update={"error": result.message}))
                if failures == GIVE_UP_AFTER:
                    raise result
                continue
            run_dir, verdict = result
            changes = {
                "run_id": run_dir.name,
                "count": verdict.observed.get(self.store.plan.anomaly, 0),
                "sent": verdict.observed.get("sent", 0),
                "verdict": verdict.verdict,
            }
            self.store.add(trial.model_copy(update=changes))
            return


def _losing(trials: Sequence[CandidateTrial]) -> int:
    return sum(trial.count > 0 for trial in trials)


def _decided(trials: Sequence[CandidateTrial], most: int, needed: int) -> bool:
    """Whether further trials cannot change the answer."""
    losing = _losing(trials)
    return losing >= needed or losing + (most - len(trials)) < needed
