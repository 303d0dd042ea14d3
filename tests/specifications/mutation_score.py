"""How much a search is worth: each guard taken away in turn must change an answer.

`ci/mutants` runs this: one line a guard and a score for each specification. It ends with 1 if a
guard is not told from its absence and nobody says why, or one is that was said not to be.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """What a search found without a guard.

    anomaly: what was looked for. steps: the length of the shortest way to it, None for no way;
    before: the same with the guard. survives: why nothing changes, if nothing does.
    """

    guard: str
    anomaly: str
    steps: int | None
    before: int | None
    survives: str = ""

    @property
    def refuted(self) -> bool:
        """Whether it is told from Kafka: by a way where there was none, or by a shorter one."""
        return self.steps is not None and (self.before is None or self.steps < self.before)

    @property
    def expected(self) -> bool:
        """Whether it is refuted exactly if nobody says that it survives."""
        return self.refuted != bool(self.survives)

    def __str__(self) -> str:
        if not self.refuted:
            return f"{self.guard + ':':30}survives: {self.survives or 'NOT EXPLAINED'}"
        before = "none with it" if self.before is None else f"{self.before} with it"
        return f"{self.guard + ':':30}refuted: {self.anomaly} in {self.steps} steps ({before})"


def report(mutations: Iterable[Mutation]) -> Iterator[tuple[str, bool]]:
    """Yield a line for each guard, and whether it is as expected; then the score."""
    killed = count = 0
    for mutation in mutations:
        killed += mutation.refuted
        count += 1
        yield str(mutation), mutation.expected
    yield f"score: {killed} of {count} guards", True


def main() -> int:
    """Print the scores of all specifications; return the exit code."""
    from specifications import adversary_mutants as of_replication
    from specifications import consumer_group_mutants as of_offsets
    from specifications import partition_mutants
    from specifications import transaction_mutants as of_transactions

    subjects = {
        "replication and election": of_replication.mutations(),
        "transactions": of_transactions.mutations(),
        "committed offsets": of_offsets.mutations(),
        "what was seen of replicas": partition_mutants.mutations(),
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
