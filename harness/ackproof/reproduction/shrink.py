"""Reduces a losing schedule to the few steps that matter, on a real cluster.

The model goes first: the smallest set of steps that it calls certain to lead to the anomaly (else,
able to) is tried before anything else, and what it calls impossible is never run. Then delta
debugging takes away steps until none can go, then durations, records and brokers are lessened. What
is kept has lost in trials of its own, so a wrong prediction can leave the answer larger than it
need be, never wrong.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.cluster.pool import ClusterPool
from ackproof.execution.runner import run
from ackproof.progress import DetailReporter, Reporter
from ackproof.reproduction import reductions
from ackproof.reproduction.ddmin import ddmin, lessen
from ackproof.reproduction.reductions import Number
from ackproof.reproduction.store import (
    Change,
    Ended,
    Shrunk,
    Store,
    Trial,
    candidate_key,
)
from ackproof.reproduction.trials import Attempt, BudgetSpentError, Lab
from ackproof.runs.directory import disk_errors, write_model
from ackproof.runs.verdict import Verdict
from ackproof.scenario.loader import Configured, dump
from ackproof.scenario.model import Scenario

if TYPE_CHECKING:
    from docker import DockerClient

#: Sets of steps of up to this size, and so many of them, are put to the model for a first guess.
_GUESSED_STEPS = 3
_GUESSES = 150
#: Beyond so many steps, a certain loss is not looked for where a possible one is known.
_PAIR = 2

_NAME = 80
Steps = tuple[int, ...]


class Shrinking:
    """One shrinking as it goes on. `best` is the smallest scenario that has lost so far."""

    def __init__(self, lab: Lab, *, notes: Sequence[str] = ()) -> None:
        self.lab = lab
        self.store: Store = lab.store
        self.best: Scenario | None = None
        self._whole = lab.store.scenario
        self._changes: list[Change] = []
        self._notes = list(notes)

    def run(self) -> Shrunk:
        """Shrink until nothing can go, or the budget is spent; write what was found.

        Raises AckproofError if trials cannot be run, DiskError if nothing more can be written. A
        KeyboardInterrupt passes; what was found until then is written.
        """
        ended: Ended = "interrupted"
        try:
            ended = self._phases()
        except BudgetSpentError:
            ended = "budget"
        finally:
            shrunk = self._shrunk(ended)
            write_model(self.store.directory / "shrink.json", shrunk)
        return shrunk

    def _phases(self) -> Ended:
        everything = tuple(range(len(self._whole.faults)))
        if self.lab.outlook(self._whole) == "impossible":
            self.lab.guided = False
            self._notes.append(
                f"the model calls {self.store.plan.anomaly} impossible in the run that had it, so "
                "it was not asked about anything else"
            )
        if not self._keeps(everything):
            return "not-again"
        if everything and self._keeps(()):
            kept: Steps = ()
        else:
            kept = ddmin(self._guessed(everything), self._keeps)
        self._keeps(kept)
        for numbers in (reductions.durations, self._records, reductions.nodes):
            self._lessen(numbers)
        return "minimal"

    def _keeps(self, steps: Steps) -> bool:
        """Whether these steps alone lose; if so, they are the best there is."""
        scenario = reductions.keep_steps(self._whole, steps)
        if scenario is None or not self.lab.loses(scenario, _named(steps, len(self._whole.faults))):
            return False
        self._keep(scenario)
        return True

    def _keep(self, scenario: Scenario) -> None:
        self.best = scenario
        with disk_errors(self.store.directory):
            dump(self._minimal(scenario), self.store.directory / "minimal.yaml", defaults=False)

    def _guessed(self, everything: Steps) -> Steps:
        """Return the few steps that the model blames, if they lose; else all."""
        if not self.lab.guided:
            return everything
        guess: Steps | None = None
        for steps in _guesses(self._whole, everything):
            scenario = reductions.keep_steps(self._whole, steps)
            if guess is not None and len(steps) > _PAIR:
                break
            if scenario is None or not self.lab.explained(scenario):
                continue
            if self.lab.outlook(scenario) == "certain":
                guess = steps
                break
            guess = guess or steps
        return guess if guess is not None and self._keeps(guess) else everything

    def _records(self, scenario: Scenario) -> list[Number]:
        example = self._example(scenario)
        return reductions.records(scenario, sent=example.sent if example else 0)

    def _lessen(self, numbers: Callable[[Scenario], list[Number]]) -> None:
        """Lessen one number after the other, each in the scenario that is left by then."""
        assert self.best is not None
        done: set[str] = set()
        while number := next((one for one in numbers(self.best) if one.name not in done), None):
            done.add(number.name)

            def loses(value: float, number: Number = number) -> bool:
                scenario = number.change(value)
                what = f"{number.name}: {number.shown(value)}"
                # A kill that comes too early loses now and then: that is no smaller number.
                return scenario is not None and self.lab.loses(scenario, what, always=True)

            value = lessen(number.value, number.least, loses, rounds=number.rounds)
            if number.shown(value) == number.shown(number.value):
                continue
            found = number.change(value)
            assert found is not None
            self._keep(found)
            self._changes.append(
                Change(
                    what=number.name,
                    before=number.shown(number.value),
                    after=number.shown(value),
                )
            )

    def _minimal(self, scenario: Scenario) -> Scenario:
        """Return the scenario under a name of its own, with where it comes from."""
        of = len(self._whole.faults)
        changes = {
            "name": f"{scenario.name[: _NAME - len('-minimal')]}-minimal",
            "description": f"{len(scenario.faults)} of the {of} steps of {self.store.plan.run_id}, "
            f"which had {self.store.plan.anomaly} records",
        }
        return scenario.model_copy(update=changes)

    def _example(self, scenario: Scenario) -> Trial | None:
        """Return the trial of a candidate that lost most."""
        trials = [one for one in self.store.of(candidate_key(scenario)) if one.count]
        return max(trials, key=lambda trial: trial.count, default=None)

    def _shrunk(self, ended: Ended) -> Shrunk:
        plan, best = self.store.plan, self.best
        answers = list(self.lab.answers.values())
        excluded = [one for one in answers if one.excluded]
        own = self.lab.answer(best) if best is not None else None
        example = self._example(best) if best is not None else None
        return Shrunk(
            shrink_id=plan.shrink_id,
            run_id=plan.run_id,
            scenario=self._whole.name,
            anomaly=plan.anomaly,
            rule=f"steps lose if at least {plan.losses} of {plan.trials} trials do, "
            "smaller numbers only if all do",
            ended=ended,
            steps={fault.id: reductions.told(fault) for fault in self._whole.faults},
            kept=[fault.id for fault in best.faults] if best is not None else [],
            changes=self._changes,
            answers=answers,
            excluded=len(excluded),
            spared=len(excluded) * (plan.trials - plan.losses + 1),
            trials_run=len(self.store.trials),
            losing=own.losing if own else 0,
            trials=own.trials if own else 0,
            example=example.run_id if example else None,
            minimal="minimal.yaml" if best is not None else None,
            notes=self._notes,
        )


def on_clusters(
    configured: Configured,
    pool: ClusterPool,
    *,
    out: Path,
    client: DockerClient | None,
    reporter: Reporter,
) -> Attempt:
    """Return what runs a candidate once, on the cluster of the one before where it may."""

    def attempt(scenario: Scenario) -> tuple[Path, Verdict]:
        candidate = replace(configured, scenario=scenario)
        return run(candidate, out=out, client=client, reporter=DetailReporter(reporter), pool=pool)

    return attempt


@contextlib.contextmanager
def clusters(client: DockerClient | None, reporter: Reporter) -> Iterator[ClusterPool]:
    """Keep one cluster for all trials that may share it."""
    with ClusterPool(client, reuse=True, say=reporter.note) as pool:
        yield pool


def _guesses(scenario: Scenario, everything: Steps) -> Iterator[Steps]:
    """Yield small sets of steps, the smallest first; steps without a fault explain nothing."""
    faults = [index for index in everything if scenario.faults[index].name != "none"]
    sets = (
        steps
        for size in range(1, min(_GUESSED_STEPS, len(faults)) + 1)
        for steps in combinations(faults, size)
    )
    for _, steps in zip(range(_GUESSES), sets, strict=False):
        yield steps


def _named(steps: Steps, of: int) -> str:
    """Return what a candidate is called: `all 12 steps`, `steps 6, 8`, `no step`."""
    if len(steps) == of:
        return f"all {of} steps"
    if not steps:
        return "no step"
    listed = ", ".join(str(index + 1) for index in steps)
    return f"step{'s' if len(steps) > 1 else ''} {listed}"
