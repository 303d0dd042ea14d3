"""Sequential comparison of the configurations in a scenario's matrix.

In each round every configuration that still needs trials runs once, in shuffled order. After the
rounds of `statistics.Design`, an interim look decides which pairs are settled. The comparison ends
when all pairs are settled, or when the planned trials or the time budget are used up. A
configuration whose trials fail twice in a row is dropped; the others continue.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from itertools import zip_longest

from ackproof.comparison.statistics import Design, Sequential
from ackproof.comparison.store import ComparisonStore, ConfigurationTrial, label, measures, order
from ackproof.comparison.summary import Summary, counts, summarise
from ackproof.errors import AckproofError
from ackproof.judgement.overview.collect import overview_of
from ackproof.progress import Reporter
from ackproof.runs.directory import write_model
from ackproof.scenario.loader import Configured
from ackproof.trials import GIVE_UP_AFTER, RunTrial, attempt


class Comparison:
    """A comparison in progress. `failure` is the error of the last trial that could not be run."""

    def __init__(self, store: ComparisonStore, run_trial: RunTrial, reporter: Reporter) -> None:
        self.store = store
        self.plan = store.plan
        self.failure: AckproofError | None = None
        self._run_trial = run_trial
        self._reporter = reporter
        every = store.configurations
        self._configured = {label(configured, every): configured for configured in every}
        design = Design.for_trials(self.plan.trials, confidence=self.plan.confidence)
        self._progress = Sequential(design, self.plan.configurations, margin=self.plan.margin)
        self._began = time.monotonic() - sum(trial.seconds for trial in store.trials)

    def run(self) -> Summary:
        """Run trials until the comparison ends, and write `comparison.json`.

        Raises DiskError if nothing more can be written, and the last failure if no configuration
        could be run. After a KeyboardInterrupt the finished trials stay stored for `resume`.
        """
        ended = "interrupted"
        try:
            ended = self._rounds()
        finally:
            summary = summarise(self.plan, self.store.trials, self._progress, ended=ended)
            write_model(self.store.directory / "comparison.json", summary)
        if self.failure is not None and not any(trial.run_id for trial in self.store.trials):
            raise self.failure
        return summary

    def _rounds(self) -> str:
        """Return why the comparison ended. A resumed comparison repeats its looks."""
        for number in range(1, self.plan.trials + 1):
            for name in self._progress.open:
                if self._keeps_failing(name, before=number):
                    self._progress.drop(name)
            needed = self._progress.open
            if not needed:
                break
            left = [
                self._configured_for(name, number)
                for name in order(self.plan, needed, number)
                if not any(trial.round == number for trial in self.store.of(name))
            ]
            for configured, then in zip_longest(left, left[1:]):
                if self._out_of_time():
                    self._look(number)
                    return "budget"
                self._run_one(configured, number, then=then)
            if number in self._progress.design.looks:
                self._look(number)
        if any(not pair.settled for pair in self._progress.pairs.values()):
            return "trials"
        return "settled" if self._progress.pairs else "trials"

    def _look(self, until: int) -> None:
        finished = [trial for trial in self.store.trials if trial.round <= until]
        self._progress.update(counts(finished, self.plan.configurations))

    def _configured_for(self, name: str, number: int) -> Configured:
        configured = self._configured[name]
        seed = configured.scenario.seed + number - 1
        return replace(configured, scenario=configured.scenario.model_copy(update={"seed": seed}))

    def _run_one(self, configured: Configured, number: int, *, then: Configured | None) -> None:
        name = label(configured, self.store.configurations)
        most = self.plan.trials
        trials = f" (trial {number} of at most {most})" if most > 1 else ""
        self._reporter.note(f"[bold]{name}[/]{trials}")
        result, seconds = attempt(partial(self._run_trial, then=then), configured)
        trial = ConfigurationTrial(configuration=name, round=number, seconds=seconds)
        if isinstance(result, AckproofError):
            self.failure = result
            self._reporter.note(f"[red]{name} could not be run:[/] {result.message}")
            changes: dict[str, object] = {"error": result.message}
        else:
            run_dir, verdict = result
            safer = overview_of(run_dir).safer
            changes = {"run_id": run_dir.name, "measures": measures(verdict, safer)}
        self.store.add(trial.model_copy(update=changes))

    def _keeps_failing(self, name: str, *, before: int) -> bool:
        last = [trial for trial in self.store.of(name) if trial.round < before][-GIVE_UP_AFTER:]
        return len(last) == GIVE_UP_AFTER and all(trial.error for trial in last)

    def _out_of_time(self) -> bool:
        budget = self.plan.budget_s
        return budget is not None and time.monotonic() - self._began >= budget
