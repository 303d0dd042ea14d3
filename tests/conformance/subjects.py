"""What is compared with Kafka's classes: for each subject its cases, its rules and its answers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ackproof_model.kafka import epoch_cache, partition_change, producer_state
from conformance import log_cases, partition_cases, transaction_cases
from specifications import transaction_coordinator, transaction_metadata

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A question that `java/Oracle.java` answers, and how our rules do.

    rules: the module with the rules. draw: makes a case. line: the case as the oracle reads it.
    ours: our answer, by the rules in a module. smaller: the case with one thing less.
    """

    question: str
    rules: ModuleType
    draw: Callable[[random.Random], Any]
    line: Callable[[Any], str]
    ours: Callable[[Any, Version, ModuleType], str]
    smaller: Callable[[Any], Sequence[Any]]

    def answer(self, case: Any, version: Version) -> str:
        """Return our answer."""
        return self.ours(case, version, self.rules)

    def cases(self, count: int, seed: int) -> list[Any]:
        """Return so many random cases, the same for the same seed."""
        rng = random.Random(seed)
        return [self.draw(rng) for _ in range(count)]


SUBJECTS = [
    Subject(
        question="partition",
        rules=partition_change,
        draw=partition_cases.random_case,
        line=partition_cases.line,
        ours=partition_cases.ours,
        smaller=partition_cases.smaller,
    ),
    Subject(
        question="epochs",
        rules=epoch_cache,
        draw=log_cases.random_epochs,
        line=log_cases.line,
        ours=lambda case, _, rules: log_cases.epochs(case, rules),
        smaller=log_cases.smaller,
    ),
    Subject(
        question="producer",
        rules=producer_state,
        draw=log_cases.random_producer,
        line=log_cases.line,
        ours=log_cases.producer,
        smaller=log_cases.smaller,
    ),
    Subject(
        question="transaction",
        rules=transaction_metadata,
        draw=transaction_cases.random_changes,
        line=transaction_cases.line,
        ours=transaction_cases.changes,
        smaller=transaction_cases.smaller,
    ),
    Subject(
        question="coordinator",
        rules=transaction_coordinator,
        draw=transaction_cases.random_requests,
        line=transaction_cases.line,
        ours=transaction_cases.requests,
        smaller=transaction_cases.smaller,
    ),
]
