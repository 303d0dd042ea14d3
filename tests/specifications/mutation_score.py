"""Mutation scores of the specifications: each guard is removed in turn, and a test must notice.

`ci/mutants` runs this. It prints a line for each guard and a score for each specification. It
exits with 1 if a removed guard is unnoticed without a stated reason, or noticed despite one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """The result of a search without a guard.

    anomaly: the anomaly searched for. steps: the length of the shortest trace to it, None if there
    is none; before: the same with the guard. survives: why the guard changes no result, or empty.
    """

    guard: str
    anomaly: str
    steps: int | None
    before: int | None
    survives: str = ""

    @property
    def refuted(self) -> bool:
        """Whether the search tells it from Kafka: by a trace where there was none, or a shorter."""
        return self.steps is not None and (self.before is None or self.steps < self.before)

    @property
    def expected(self) -> bool:
        """Whether it is refuted, or else declared to survive."""
        return self.refuted != bool(self.survives)

    def __str__(self) -> str:
        if not self.refuted:
            return f"{self.guard + ':':30}survives: {self.survives or 'NOT EXPLAINED'}"
        before = "none with it" if self.before is None else f"{self.before} with it"
        return f"{self.guard + ':':30}refuted: {self.anomaly} in {self.steps} steps ({before})"


def report(mutations: Iterable[Mutation]) -> Iterator[tuple[str, bool]]:
    """Yield a line for each guard, and whether its result is expected; then the score."""
    killed = count = 0
    for mutation in mutations:
        killed += mutation.refuted
        count += 1
        yield str(mutation), mutation.expected
    yield f"score: {killed} of {count} guards", True


def main() -> int:
    """Print the scores of all specifications; return the exit code."""
    from specifications import adversary_mutants as of_replication
    from specifications import client_version_mutants as of_client_versions
    from specifications import consumer_group_mutants as of_offsets
    from specifications import partition_mutants
    from specifications import transaction_mutants as of_transactions
    from specifications import version_mutants as of_versions

    subjects = {
        "replication and election": of_replication.mutations(),
        "rules by version": of_versions.mutations(),
        "transactions and offsets by version": of_client_versions.mutations(),
        "transactions": of_transactions.mutations(),
        "committed offsets": of_offsets.mutations(),
        "observed replicas": partition_mutants.mutations(),
    }
    as_expected = True
    for subject, mutations in subjects.items():
        sys.stdout.write(f"{subject}\n")
        for line, expected in report(mutations):
            sys.stdout.write(f"  {line}\n")
            sys.stdout.flush()
            as_expected &= expected
    return 0 if as_expected else 1


if __name__ == "__main__":
    sys.exit(main())
