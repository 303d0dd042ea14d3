"""Says whether a candidate loses: by the model where it excludes that, else by trials.

A candidate loses if at least k of at most n trials show the anomaly. Trials end as soon as that is
settled either way, and an answer once given stands. A trial in which the anomaly was seen counts
whatever else went wrong; one in which it was not counts as not losing, also if it was inconclusive:
a candidate is only ever kept on evidence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.markup import escape

from ackproof.errors import AckproofError, DiskError
from ackproof.prediction.replication import predict
from ackproof.progress import Reporter
from ackproof.reproduction.store import (
    Answer,
    Store,
    Trial,
    candidate_key,
)
from ackproof.runs.directory import PredictionRecord
from ackproof.runs.verdict import Outlook, Verdict
from ackproof.scenario.model import Scenario

#: Runs a scenario once: `shrink.on_clusters`, or a test's stand-in.
Attempt = Callable[[Scenario], tuple[Path, Verdict]]

#: What the model may search for one candidate: about a second.
_STATES = 20_000
#: So many trials in a row that could not be run end it all.
_GIVE_UP_AFTER = 2


class BudgetSpentError(Exception):
    """No further trial may begin: the time is up."""


#: Asks the model about a candidate.
Predict = Callable[[Scenario], PredictionRecord]


def asked_briefly(scenario: Scenario) -> PredictionRecord:
    """Return what the model says of a candidate, within a second or two."""
    return predict(scenario, max_states=_STATES)


class Lab:
    """Answers for candidates, and remembers every answer.

    `guided`: the model's exclusions are believed. `deadline` is in `time.monotonic()`'s seconds.
    """

    def __init__(
        self,
        store: Store,
        attempt: Attempt,
        reporter: Reporter,
        *,
        deadline: float | None = None,
        predict: Predict = asked_briefly,
    ) -> None:
        self.store = store
        self.guided = True
        self.answers: dict[str, Answer] = {}
        self._attempt = attempt
        self._reporter = reporter
        self._deadline = deadline
        self._predict = predict
        self._predictions: dict[str, PredictionRecord] = {}

    def loses(self, scenario: Scenario, what: str, *, always: bool = False) -> bool:
        """Whether the anomaly is seen again; `what` describes the candidate.

        `always`: in every trial, not just in as many as the plan asks for. Raises BudgetSpentError
        before a trial that may not begin, AckproofError if trials cannot be run.
        """
        key = candidate_key(scenario)
        if key not in self.answers:
            needed = self.store.plan.trials if always else self.store.plan.losses
            self.answers[key] = answer = self._answer(scenario, key, what, needed=needed)
            colour = "red" if answer.loses else "green"
            self._reporter.note(f"  {escape(what)}: [{colour}]{answer.told}[/]")
        return self.answers[key].loses

    def answer(self, scenario: Scenario) -> Answer | None:
        """Return what is known of a candidate."""
        return self.answers.get(candidate_key(scenario))

    def outlook(self, scenario: Scenario) -> Outlook:
        """Return what the model says of the anomaly in this scenario."""
        return self._predicted(scenario).predicted.get(self.store.plan.anomaly, "possible")

    def explained(self, scenario: Scenario) -> bool:
        """Whether the model knows a way to the anomaly, and does not merely exclude nothing."""
        told = self._predicted(scenario).prediction
        known = bool(told.trace) or self.store.plan.anomaly != "lost"
        return self.outlook(scenario) != "impossible" and known

    def _predicted(self, scenario: Scenario) -> PredictionRecord:
        key = candidate_key(scenario)
        if key not in self._predictions:
            self._predictions[key] = self._predict(scenario)
        return self._predictions[key]

    def _answer(self, scenario: Scenario, key: str, what: str, *, needed: int) -> Answer:
        steps = [fault.id for fault in scenario.faults]
        if self.guided and self.outlook(scenario) == "impossible":
            return Answer(what=what, steps=steps, loses=False, excluded=True)
        plan = self.store.plan
        ended = self.store.of(key)
        while not _settled(ended, plan.trials, needed):
            self._try(scenario, key, what, number=len(ended) + 1)
            ended = self.store.of(key)
        losing = _losing(ended)
        return Answer(
            what=what,
            steps=steps,
            loses=losing >= needed,
            losing=losing,
            trials=len(ended),
        )

    def _try(self, scenario: Scenario, key: str, what: str, *, number: int) -> None:
        """Run a candidate once more, and once again if that could not be run."""
        for attempt in range(1, _GIVE_UP_AFTER + 1):
            if self._deadline is not None and time.monotonic() >= self._deadline:
                raise BudgetSpentError
            began = time.monotonic()
            try:
                with self._reporter.phase(f"{what}: trial {number}"):
                    run_dir, verdict = self._attempt(scenario)
            except DiskError:
                raise
            except AckproofError as error:
                seconds = time.monotonic() - began
                self.store.add(
                    Trial(candidate=key, what=what, error=error.message, seconds=seconds)
                )
                if attempt == _GIVE_UP_AFTER:
                    raise
                continue
            self.store.add(
                Trial(
                    candidate=key,
                    what=what,
                    run_id=run_dir.name,
                    count=verdict.observed.get(self.store.plan.anomaly, 0),
                    sent=verdict.observed.get("sent", 0),
                    verdict=verdict.verdict,
                    seconds=time.monotonic() - began,
                )
            )
            return


def _losing(trials: Sequence[Trial]) -> int:
    return sum(trial.count > 0 for trial in trials)


def _settled(trials: Sequence[Trial], most: int, needed: int) -> bool:
    """Whether further trials cannot change the answer."""
    losing = _losing(trials)
    return losing >= needed or losing + (most - len(trials)) < needed
