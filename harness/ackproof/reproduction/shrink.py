"""Reduces a losing schedule to the few steps that are needed, on a real cluster.

The first candidate is the smallest set of steps for which the model predicts the anomaly `certain`
(else `possible`). Candidates for which it predicts `impossible` are never run. Delta debugging then
removes steps until every step is needed; after that, durations, records and brokers are reduced.
Every accepted reduction has lost in its own trials. So after a wrong prediction the result may be
larger than necessary, but it is correct.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, islice, pairwise
from typing import TypeVar

from ackproof.reproduction import reductions
from ackproof.reproduction.oracle import BudgetSpentError, CandidateTrial, LossOracle, candidate_key
from ackproof.reproduction.reductions import Number
from ackproof.reproduction.summary import Change, Ended, ShrinkResult
from ackproof.runs.directory import disk_errors, write_model
from ackproof.scenario.loader import dump
from ackproof.scenario.model import Scenario

T = TypeVar("T")


def ddmin(items: Sequence[T], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Return a 1-minimal subset of `items`, in their order, that fails.

    The algorithm is delta debugging: Zeller and Hildebrandt, "Simplifying and Isolating
    Failure-Inducing Input", IEEE Transactions on Software Engineering 28(2), 2002.

    All `items` together must fail. 1-minimal: without any single item the subset does not fail (the
    empty set is tried only if one item is left). `fails` need not be monotonic, but must be
    deterministic, so a random oracle must cache its answers. It is called at most n * (n + 3) times
    for n items.
    """
    subset = tuple(items)
    parts = 2
    while subset:
        parts = min(parts, len(subset))
        slices = _split(subset, parts)
        smaller = next((part for part in slices if len(part) < len(subset) and fails(part)), None)
        if smaller is not None:
            subset, parts = smaller, 2
            continue
        # With two parts, the complement of one is the other.
        complements = [_without(slices, index) for index in range(parts)] if parts > 2 else []
        complement = next((part for part in complements if fails(part)), None)
        if complement is not None:
            subset, parts = complement, max(parts - 1, 2)
        elif parts < len(subset):
            parts *= 2
        else:
            return () if len(subset) == 1 and fails(()) else subset
    return subset


def minimize(
    value: float, least: float, fails: Callable[[float], bool], *, rounds: int = 3
) -> float:
    """Return a small number from `least` to `value` that fails, after `rounds` bisections.

    `value` must fail. `least` is tried first. If `fails` is not monotonic, a smaller number may
    fail as well.
    """
    if value <= least:
        return value
    if fails(least):
        return least
    low, high = least, value
    for _ in range(rounds):
        middle = (low + high) / 2
        if fails(middle):
            high = middle
        else:
            low = middle
    return high


def _split(items: tuple[T, ...], parts: int) -> list[tuple[T, ...]]:
    bounds = [len(items) * number // parts for number in range(parts + 1)]
    return [items[low:high] for low, high in pairwise(bounds)]


def _without(slices: Sequence[tuple[T, ...]], index: int) -> tuple[T, ...]:
    return tuple(item for number, part in enumerate(slices) if number != index for item in part)


#: Maximum size of the model's first candidate, and maximum number of candidates.
_GUESS_STEPS = 3
_GUESSES = 150
#: After a possible loss, larger sets are not searched for a certain loss.
_CERTAIN_STEPS = 2

#: Maximum length of a scenario's name.
_NAME = 80
Steps = tuple[int, ...]


class Shrink:
    """A shrink in progress. `best` is the smallest scenario that has lost so far."""

    def __init__(self, oracle: LossOracle, *, notes: Sequence[str] = ()) -> None:
        self.oracle = oracle
        self.store = oracle.store
        self.best: Scenario | None = None
        self._whole = oracle.store.configured.scenario
        self._changes: list[Change] = []
        self._notes = list(notes)

    def run(self) -> ShrinkResult:
        """Reduce until nothing more can be removed or the budget is spent; write `shrink.json`.

        Raises AckproofError if trials cannot be run, DiskError if nothing more can be written.
        After a KeyboardInterrupt the result so far is written.
        """
        ended: Ended = "interrupted"
        try:
            ended = self._phases()
        except BudgetSpentError:
            ended = "budget"
        finally:
            result = self._result(ended)
            write_model(self.store.directory / "shrink.json", result)
        return result

    def _phases(self) -> Ended:
        everything = tuple(range(len(self._whole.faults)))
        if self.oracle.prediction(self._whole) == "impossible":
            self.oracle.guided = False
            self._notes.append(
                f"the model predicts {self.store.plan.anomaly} impossible for this run, although "
                "it occurred, so no candidate was excluded"
            )
        if not self._keeps(everything):
            return "not-again"
        if everything and self._keeps(()):
            kept: Steps = ()
        else:
            kept = ddmin(self._guessed(everything), self._keeps)
        self._keeps(kept)
        for numbers in (reductions.durations, self._records, reductions.nodes):
            self._reduce(numbers)
        return "minimal"

    def _keeps(self, steps: Steps) -> bool:
        """Return whether these steps alone lose; if so, they become `best`."""
        scenario = reductions.keep_steps(self._whole, steps)
        if scenario is None or not self.oracle.loses(
            scenario, _named(steps, len(self._whole.faults))
        ):
            return False
        self._keep(scenario)
        return True

    def _keep(self, scenario: Scenario) -> None:
        self.best = scenario
        with disk_errors(self.store.directory):
            dump(self._minimal(scenario), self.store.directory / "minimal.yaml", defaults=False)

    def _guessed(self, everything: Steps) -> Steps:
        """Return the few steps that explain the loss in the model, if they lose; else all."""
        if not self.oracle.guided:
            return everything
        guess: Steps | None = None
        for steps in _guesses(self._whole, everything):
            scenario = reductions.keep_steps(self._whole, steps)
            if guess is not None and len(steps) > _CERTAIN_STEPS:
                break
            if scenario is None or not self.oracle.explained(scenario):
                continue
            if self.oracle.prediction(scenario) == "certain":
                guess = steps
                break
            guess = guess or steps
        return guess if guess is not None and self._keeps(guess) else everything

    def _records(self, scenario: Scenario) -> list[Number]:
        example = self._example(scenario)
        return reductions.records(scenario, sent=example.sent if example else 0)

    def _reduce(self, numbers: Callable[[Scenario], list[Number]]) -> None:
        assert self.best is not None
        done: set[str] = set()
        while number := next((n for n in numbers(self.best) if n.name not in done), None):
            done.add(number.name)

            def loses(value: float, number: Number = number) -> bool:
                scenario = number.change(value)
                what = f"{number.name}: {number.text(value)}"
                # A kill that is too early loses only in some trials; it is not accepted.
                return scenario is not None and self.oracle.loses(scenario, what, always=True)

            value = minimize(number.value, number.least, loses, rounds=number.rounds)
            if number.text(value) == number.text(number.value):
                continue
            reduced = number.change(value)
            assert reduced is not None
            self._keep(reduced)
            self._changes.append(
                Change(
                    what=number.name,
                    before=number.text(number.value),
                    after=number.text(value),
                )
            )

    def _minimal(self, scenario: Scenario) -> Scenario:
        plan, steps = self.store.plan, f"{len(scenario.faults)} of the {len(self._whole.faults)}"
        changes = {
            "name": f"{scenario.name[: _NAME - len('-minimal')]}-minimal",
            "description": f"{steps} steps of {plan.run_id}, which had {plan.anomaly} records",
        }
        return scenario.model_copy(update=changes)

    def _example(self, scenario: Scenario) -> CandidateTrial | None:
        """Return the candidate's trial with the most losses."""
        trials = [trial for trial in self.store.of(candidate_key(scenario)) if trial.count]
        return max(trials, key=lambda trial: trial.count, default=None)

    def _result(self, ended: Ended) -> ShrinkResult:
        plan, best = self.store.plan, self.best
        answers = list(self.oracle.answers.values())
        excluded = [answer for answer in answers if answer.excluded]
        own = self.oracle.answer(best) if best is not None else None
        example = self._example(best) if best is not None else None
        return ShrinkResult(
            shrink_id=plan.shrink_id,
            run_id=plan.run_id,
            scenario=self._whole.name,
            anomaly=plan.anomaly,
            rule=f"steps lose if at least {plan.losses} of {plan.trials} trials do, "
            "smaller numbers only if all do",
            ended=ended,
            steps={fault.id: reductions.step_text(fault) for fault in self._whole.faults},
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


def _guesses(scenario: Scenario, everything: Steps) -> Iterator[Steps]:
    """Yield small sets of steps that inject faults, smallest first."""
    faults = [index for index in everything if scenario.faults[index].effects]
    sets = (
        steps
        for size in range(1, min(_GUESS_STEPS, len(faults)) + 1)
        for steps in combinations(faults, size)
    )
    return islice(sets, _GUESSES)


def _named(steps: Steps, of: int) -> str:
    """``all 12 steps``, ``steps 6, 8``, ``no step``."""
    if len(steps) == of:
        return f"all {of} steps"
    if not steps:
        return "no step"
    listed = ", ".join(str(index + 1) for index in steps)
    return f"step{'s' if len(steps) > 1 else ''} {listed}"
