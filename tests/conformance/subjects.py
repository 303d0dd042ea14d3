"""What is compared with Kafka's classes: for each subject its cases, its rules and its answers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ackproof_model.kafka import epoch_cache, partition_change, producer_state, reassignment
from ackproof_model.replication import isr, leader, log_truncation, replica
from ackproof_model.share_groups import coordinator as share_coordinator
from ackproof_model.share_groups import partition as share_partition
from ackproof_model.transactions import coordinator, markers
from conformance import (
    coordinator_cases,
    log_cases,
    marker_cases,
    partition_cases,
    reassignment_cases,
    replica_cases,
    share_cases,
    truncation_cases,
)
from conformance.kafka_classes import SHARE_GROUPS_SINCE, Oracle

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A question that `java/Oracle.java` answers, and how our rules do.

    rules: the modules with the rules. draw: makes a random case; None if `every` returns all cases.
    line: the case as the oracle reads it. ours: our answer, by the rules in a module. smaller: the
    case with one thing less. kafkas: the part of the oracle's answer that is compared. since: the
    first version that has the class.
    """

    question: str
    rules: tuple[ModuleType, ...]
    line: Callable[[Any], str]
    ours: Callable[[Any, Version, ModuleType], str]
    smaller: Callable[[Any], Sequence[Any]] = lambda _: ()
    draw: Callable[[random.Random], Any] | None = None
    every: Callable[[], list[Any]] = list
    kafkas: Callable[[str], str] = str
    since: Version = ()

    def answer(self, case: Any, version: Version) -> str:
        """Return our answer."""
        return self.ours(case, version, self.rules[0])

    def asked(self, oracle: Oracle, cases: Sequence[Any]) -> list[str]:
        """Return Kafka's answers."""
        return [*map(self.kafkas, oracle.ask(self.question, map(self.line, cases)))]

    def cases(self, count: int, seed: int) -> list[Any]:
        """Draw so many random cases, the same for the same seed, or return every case.

        A case that was drawn twice is returned once.
        """
        if self.draw is None:
            return self.every()
        rng = random.Random(seed)
        return [*dict.fromkeys(self.draw(rng) for _ in range(count))]


SUBJECTS = [
    Subject(
        question="partition",
        rules=(partition_change,),
        draw=partition_cases.random_case,
        line=partition_cases.line,
        ours=partition_cases.ours,
        smaller=partition_cases.smaller,
    ),
    Subject(
        question="reassignment",
        rules=(reassignment,),
        draw=reassignment_cases.random_case,
        line=reassignment_cases.line,
        ours=reassignment_cases.ours,
        smaller=reassignment_cases.smaller,
    ),
    Subject(
        question="epochs",
        rules=(epoch_cache,),
        draw=log_cases.random_epochs,
        line=log_cases.line,
        ours=lambda case, _, rules: log_cases.epochs(case, rules),
        smaller=log_cases.smaller,
    ),
    Subject(
        question="producer",
        rules=(producer_state,),
        draw=log_cases.random_producer,
        line=log_cases.line,
        ours=log_cases.producer,
        smaller=log_cases.smaller,
    ),
    Subject(
        question="coordinator",
        rules=(coordinator,),
        every=coordinator_cases.every_case,
        line=coordinator_cases.line,
        ours=coordinator_cases.ours,
        kafkas=coordinator_cases.kafkas,
    ),
    Subject(
        question="markers",
        rules=(markers,),
        every=marker_cases.every_case,
        line=marker_cases.line,
        ours=marker_cases.ours,
    ),
    Subject(
        question="truncation",
        rules=(log_truncation,),
        draw=truncation_cases.random_case,
        line=truncation_cases.line,
        ours=truncation_cases.ours,
        smaller=truncation_cases.smaller,
        kafkas=truncation_cases.kafkas,
    ),
    Subject(
        question="replica",
        rules=(replica, leader, isr, log_truncation),
        draw=replica_cases.random_case,
        line=replica_cases.line,
        ours=replica_cases.ours,
        smaller=replica_cases.smaller,
    ),
    Subject(
        question="share partition",
        rules=(share_partition,),
        draw=share_cases.random_life,
        line=share_cases.life_line,
        ours=share_cases.lived,
        smaller=share_cases.smaller_lives,
        since=SHARE_GROUPS_SINCE,
    ),
    Subject(
        question="share coordinator",
        rules=(share_coordinator,),
        draw=share_cases.random_requests,
        line=share_cases.requests_line,
        ours=share_cases.requested,
        smaller=share_cases.smaller_requests,
        since=SHARE_GROUPS_SINCE,
    ),
]
