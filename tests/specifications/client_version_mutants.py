"""Rules of transactions and committed offsets that came with a version, switched over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from ackproof_model import Profile
from ackproof_model.consumer_groups import bounds as of_offsets
from ackproof_model.consumer_groups import search as search_offsets
from ackproof_model.transactions import bounds as of_transactions
from ackproof_model.transactions import search as search_transactions
from specifications.mutation_score import Mutation


@dataclass(frozen=True, kw_only=True)
class OtherTransactions(of_transactions.TransactionModel):
    """A version's transactions, but for one rule of its profile."""

    rules: Mapping[str, object] = field(default_factory=dict)

    @cached_property
    def profile(self) -> Profile:
        return replace(Profile.of(self.kafka_version), **self.rules)


@dataclass(frozen=True, kw_only=True)
class OtherOffsets(of_offsets.OffsetModel):
    """A version's committed offsets, but for one rule of its profile."""

    rules: Mapping[str, object] = field(default_factory=dict)

    @cached_property
    def profile(self) -> Profile:
        return replace(Profile.of(self.kafka_version), **self.rules)


_Model = OtherTransactions | OtherOffsets

#: A rule, a model of the first release line that has it, and the anomaly without it.
MUTANTS: tuple[tuple[str, _Model, str], ...] = (
    (
        "verifies_transactions",
        OtherTransactions(
            kafka_version="3.6.2", budgets=of_transactions.TransactionBudgets(delays=1)
        ),
        "hanging",
    ),
    (
        "strict_markers",
        OtherTransactions(
            kafka_version="4.2.0",
            protocol=2,
            budgets=of_transactions.TransactionBudgets(marker_delays=1),
        ),
        "aborted-read",
    ),
    (
        "group_fencing",
        OtherOffsets(
            kafka_version="2.5.0",
            commit="transaction",
            budgets=of_offsets.OffsetBudgets(rebalances=1),
        ),
        "reprocessed",
    ),
    (
        "clients_truncate",
        OtherOffsets(
            kafka_version="2.4.1",
            commit="after",
            budgets=of_offsets.OffsetBudgets(log_losses=1),
        ),
        "unprocessed",
    ),
)

#: Rules that no search tells, and what does.
ELSEWHERE = {
    "transactions": "test_known_results: a version before 0.11 is refused",
    "transactions_v2": "test_known_results: protocol 2 is refused before 4.0",
    "double_bump": "test_claims: the error code of B16 in 4.0.0",
    "first_sequence_zero": "conformance/log_cases: Kafka's own log of each version",
}


def _steps(model: _Model, anomaly: str) -> int | None:
    search = search_offsets if isinstance(model, OtherOffsets) else search_transactions
    found = search(model).traces.get(anomaly)
    return len(found) if found else None


def mutation(rule: str, model: _Model, anomaly: str) -> Mutation:
    """Return what is found under the version's rules, and without one of them."""
    return Mutation(
        guard=f"{rule} of {model.kafka_version}",
        anomaly=anomaly,
        steps=_steps(replace(model, rules={rule: False}), anomaly),
        before=_steps(model, anomaly),
    )


def mutations() -> Iterator[Mutation]:
    """Yield what is found for each rule."""
    for rule, model, anomaly in MUTANTS:
        yield mutation(rule, model, anomaly)
