"""Tries every configuration of a scenario's matrix again and again, until it is known who loses.

A round tries each configuration that is still needed once, in a shuffled order. After some rounds
(`statistics.design`) the comparison is looked at: it ends once every pair is settled, or when the
trials or the time are used up. A configuration that cannot be run twice in a row is left out, and
the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.cluster.pool import ClusterPool
from ackproof.comparison.plan import label, order
from ackproof.comparison.statistics import Sequential, design
from ackproof.comparison.summary import Summary, counts, summarise
from ackproof.comparison.trials import Store, Trial, measures
from ackproof.errors import AckproofError, DiskError
from ackproof.execution.runner import run
from ackproof.progress import Reporter
from ackproof.runs.directory import read_verdict, write_model
from ackproof.runs.verdict import Verdict
from ackproof.scenario.loader import Configured

if TYPE_CHECKING:
    from docker import DockerClient

#: Tries one configuration with this seed: `runner.run`, or a test's stand-in.
Try = Callable[[Configured, int], tuple[Path, Verdict]]

#: A configuration that failed so many times in a row is left out.
_GIVE_UP_AFTER = 2


class Comparison:
    """One comparison as it goes on. `results` are the runs of this process, in their order."""

    def __init__(self, store: Store, attempt: Try, reporter: Reporter) -> None:
        self.store = store
        self.plan = store.plan
        self.results: list[tuple[Path, Verdict]] = []
        self.failure: AckproofError | None = None
        self._attempt = attempt
        self._reporter = reporter
        self._configured = {label(one, store.configurations): one for one in store.configurations}
        planned = design(self.plan.trials, confidence=self.plan.confidence)
        self._progress = Sequential(planned, self.plan.configurations, margin=self.plan.margin)
        self._began = time.monotonic() - sum(trial.seconds for trial in store.trials)

    def run(self) -> Summary:
        """Try until it is settled, or trials or time are used up; write `comparison.json`.

        Raises DiskError if nothing more can be written, and the last failure if no configuration
        could be run. A KeyboardInterrupt passes; what has ended is kept for `resume`.
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
        """Try round by round; return why it ended. Resumed, it takes the same looks again."""
        for number in range(1, self.plan.trials + 1):
            for name in self._progress.open:
                if self._given_up(name, before=number):
                    self._progress.set_aside(name)
            needed = self._progress.open
            if not needed:
                break
            for name in order(self.plan, needed, number):
                if self.store.done(name, number) is None:
                    if self._out_of_time():
                        self._look(number)
                        return "budget"
                    self._try(name, number)
            if number in self._progress.plan.looks:
                self._look(number)
        if any(not pair.settled for pair in self._progress.pairs.values()):
            return "trials"
        return "settled" if self._progress.pairs else "trials"

    def _look(self, until: int) -> None:
        seen = [trial for trial in self.store.trials if trial.round <= until]
        self._progress.update(counts(seen, self.plan.configurations))

    def _try(self, name: str, number: int) -> None:
        configured = self._configured[name]
        self._reporter.note(f"[bold]{name}[/] (trial {number} of at most {self.plan.trials})")
        began = time.monotonic()
        seed = configured.scenario.seed + number - 1
        try:
            run_dir, verdict = self._attempt(configured, seed)
        except DiskError:
            raise
        except AckproofError as error:
            self.failure = error
            self._reporter.note(f"[red]{name} could not be run:[/] {error.message}")
            trial = Trial(
                configuration=name,
                round=number,
                error=error.message,
                seconds=time.monotonic() - began,
            )
        else:
            self.results.append((run_dir, verdict))
            trial = Trial(
                configuration=name,
                round=number,
                run_id=run_dir.name,
                seconds=time.monotonic() - began,
                measures=measures(verdict),
            )
        self.store.add(trial)

    def _given_up(self, name: str, *, before: int) -> bool:
        own = [t for t in self.store.trials if t.configuration == name and t.round < before]
        last = own[-_GIVE_UP_AFTER:]
        return len(last) == _GIVE_UP_AFTER and all(trial.error for trial in last)

    def _out_of_time(self) -> bool:
        budget = self.plan.budget_s
        return budget is not None and time.monotonic() - self._began >= budget


def on_clusters(*, out: Path, client: DockerClient | None, reporter: Reporter) -> Try:
    """Return what tries a configuration on a fresh cluster of its own."""

    def attempt(configured: Configured, seed: int) -> tuple[Path, Verdict]:
        from dataclasses import replace

        seeded = replace(configured, scenario=configured.scenario.model_copy(update={"seed": seed}))
        with ClusterPool(client, say=reporter.note) as pool:
            return run(seeded, out=out, client=client, reporter=reporter, pool=pool)

    return attempt


def stored_results(store: Store) -> Iterator[tuple[Path, Verdict]]:
    """Yield the runs of all trials, also of those that an earlier process has made.

    Raises RunDirectoryError if one is no longer there.
    """
    for trial in store.trials:
        if trial.run_id is not None:
            path = store.directory.parent / trial.run_id
            yield path, read_verdict(path)
