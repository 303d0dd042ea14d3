"""Each guard of transactions is removed: an anomaly must become possible, or its trace shorter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ackproof_model.transactions.bounds import (
    Protocol,
    TransactionBudgets,
    TransactionChecks,
    TransactionModel,
)
from ackproof_model.transactions.search import search
from specifications.mutation_score import Mutation


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMutant:
    """A guard, and the anomaly that is possible without it under these budgets."""

    guard: str
    anomaly: str
    kafka_version: str = "3.9.1"
    protocol: Protocol = 1
    budgets: TransactionBudgets = field(default_factory=TransactionBudgets)

    @property
    def mutation(self) -> Mutation:
        """The result with the guard and without it."""
        model = TransactionModel(
            kafka_version=self.kafka_version, protocol=self.protocol, budgets=self.budgets
        )
        broken = replace(model, checks=replace(TransactionChecks(), **{self.guard: False}))
        before, after = (search(one, until=[self.anomaly]).traces for one in (model, broken))
        return Mutation(
            guard=self.guard,
            anomaly=self.anomaly,
            steps=len(after[self.anomaly]) if self.anomaly in after else None,
            before=len(before[self.anomaly]) if self.anomaly in before else None,
        )


_DELAY = TransactionBudgets(delays=1)
_RESTART = TransactionBudgets(restarts=1)
_LATE_MARKER = TransactionBudgets(marker_delays=1)
_FAILOVER = TransactionBudgets(failovers=1)

MUTANTS = (
    TransactionMutant(guard="fencing", anomaly="zombie-commit", budgets=_RESTART),
    TransactionMutant(guard="abort_before_init", anomaly="aborted-read", budgets=_RESTART),
    TransactionMutant(
        guard="coordinator_epoch_check",
        anomaly="aborted-read",
        kafka_version="4.3.1",
        protocol=2,
        budgets=_DELAY,
    ),
    TransactionMutant(guard="log_epoch_check", anomaly="zombie-write", budgets=_RESTART),
    TransactionMutant(guard="term_check", anomaly="aborted-read", budgets=_FAILOVER),
    TransactionMutant(
        guard="dedup",
        anomaly="duplicated",
        kafka_version="4.3.1",
        protocol=2,
        budgets=_DELAY,
    ),
    TransactionMutant(guard="prepare_first", anomaly="torn", budgets=_FAILOVER),
    TransactionMutant(guard="replicated_first", anomaly="aborted-read", budgets=_FAILOVER),
    TransactionMutant(guard="load_first", anomaly="hanging", budgets=_FAILOVER),
    TransactionMutant(guard="markers_resent", anomaly="lost", budgets=_FAILOVER),
    TransactionMutant(guard="complete_first", anomaly="aborted-read"),
    TransactionMutant(guard="stable_offset", anomaly="aborted-read"),
    TransactionMutant(guard="aborted_index", anomaly="aborted-read"),
    TransactionMutant(
        # The anomaly is possible with the guard, too, but its trace is longer.
        guard="resolved_first",
        anomaly="lost",
        budgets=_DELAY,
    ),
    TransactionMutant(guard="verification", anomaly="hanging", budgets=_DELAY),
    TransactionMutant(guard="verification_guard", anomaly="hanging", budgets=_DELAY),
    TransactionMutant(
        guard="open_epoch", anomaly="aborted-read", kafka_version="4.0.0", protocol=2
    ),
    TransactionMutant(
        guard="epoch_bump", anomaly="aborted-read", kafka_version="4.3.1", protocol=2
    ),
    TransactionMutant(
        guard="strict_marker",
        anomaly="aborted-read",
        kafka_version="4.3.1",
        protocol=2,
        budgets=_LATE_MARKER,
    ),
    TransactionMutant(
        guard="marker_retry",
        anomaly="stuck",
        kafka_version="4.3.1",
        protocol=2,
        budgets=_LATE_MARKER,
    ),
)


def mutations() -> Iterator[Mutation]:
    """Yield the result for each guard."""
    return (mutant.mutation for mutant in MUTANTS)
