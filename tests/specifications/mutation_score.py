"""Mutation scores of the specifications: a test must detect the removal of each guard.

`ci/lab/mutants` prints the scores.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from ackproof_model import adversary, consumer_groups, transactions

Model = adversary.AdversaryModel | transactions.TransactionModel | consumer_groups.OffsetModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """The result of a search without a guard.

    anomaly: the anomaly searched for. steps: the length of the shortest trace to it, None if there
    is none; before: the same with the guard.
    """

    guard: str
    anomaly: str
    steps: int | None
    before: int | None

    @property
    def refuted(self) -> bool:
        """Whether the anomaly has a trace only without the guard, or a shorter trace."""
        return self.steps is not None and (self.before is None or self.steps < self.before)

    def __str__(self) -> str:
        if not self.refuted:
            return f"{self.guard + ':':30}survives"
        before = "none with it" if self.before is None else f"{self.before} with it"
        return f"{self.guard + ':':30}refuted: {self.anomaly} in {self.steps} steps ({before})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A guard, and a model with an anomaly that is possible, or nearer, without the guard."""

    guard: str
    model: Model
    without: Callable[[], AbstractContextManager[None]]
    anomaly: str = "a loss"

    def __str__(self) -> str:
        return self.guard

    def mutation(self) -> Mutation:
        before = _steps(self.model, self.anomaly)
        with self.without():
            steps = _steps(replace(self.model), self.anomaly)  # a copy: a model caches its rules
        return Mutation(guard=self.guard, anomaly=self.anomaly, steps=steps, before=before)


def _steps(model: Model, anomaly: str) -> int | None:
    """Return the length of a shortest trace to an anomaly, None if it is impossible."""
    if isinstance(model, adversary.AdversaryModel):
        answer = adversary.search(model)
        assert answer.complete
        return len(answer.trace) if answer.lost else None
    trace: tuple[object, ...] | None
    if isinstance(model, transactions.TransactionModel):
        trace = transactions.search(model, until=[anomaly]).traces.get(anomaly)
    else:
        trace = consumer_groups.search(model, until=[anomaly]).traces.get(anomaly)
    return None if trace is None else len(trace)


def report(mutations: Iterable[Mutation]) -> Iterator[tuple[str, bool]]:
    """Yield a line for each guard, and whether it was refuted; then the score."""
    killed = count = 0
    for mutation in mutations:
        killed += mutation.refuted
        count += 1
        yield str(mutation), mutation.refuted
    yield f"score: {killed} of {count} guards", True


def main() -> int:
    """Print the scores of all specifications; return the exit code."""
    from specifications import (
        adversary_mutants,
        consumer_group_mutants,
        partition_mutants,
        transaction_mutants,
        version_mutants,
    )

    subjects = {
        "replication and election": adversary_mutants.MUTANTS,
        "rules by version": version_mutants.MUTANTS,
        "transactions": transaction_mutants.MUTANTS,
        "committed offsets": consumer_group_mutants.MUTANTS,
    }
    scores: dict[str, Iterable[Mutation]] = {
        subject: (mutant.mutation() for mutant in mutants) for subject, mutants in subjects.items()
    }
    scores["observed replicas"] = partition_mutants.mutations()
    all_refuted = True
    for subject, mutations in scores.items():
        sys.stdout.write(f"{subject}\n")
        for line, refuted in report(mutations):
            sys.stdout.write(f"  {line}\n")
            sys.stdout.flush()
            all_refuted &= refuted
    return 0 if all_refuted else 1


if __name__ == "__main__":
    sys.exit(main())
