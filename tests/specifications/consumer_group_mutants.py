"""Each guard of committed offsets is removed: an anomaly must become possible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ackproof_model.consumer_groups.bounds import OffsetBudgets, OffsetChecks, OffsetModel
from ackproof_model.consumer_groups.search import search
from specifications.mutation_score import Mutation

_ONE_REBALANCE = OffsetBudgets(rebalances=1)
_IN_TRANSACTIONS = OffsetModel(kafka_version="4.3.1", commit="transaction", budgets=_ONE_REBALANCE)

_BEFORE = OffsetModel(kafka_version="4.3.1", commit="before", budgets=_ONE_REBALANCE)
_FAILOVER = replace(_BEFORE, budgets=OffsetBudgets(crashes=1, failovers=1))
_LOST = replace(_BEFORE, commit="after", budgets=OffsetBudgets(log_losses=1))

#: A guard, and a model that allows this anomaly only without it.
MUTANTS = (
    ("generation_check", _BEFORE, "reprocessed"),
    ("transaction_generation_check", _IN_TRANSACTIONS, "reprocessed"),
    ("stable_fetch", _IN_TRANSACTIONS, "reprocessed"),
    ("id_fencing", replace(_IN_TRANSACTIONS, kafka_version="2.4.1", same_id=True), "reprocessed"),
    ("atomic", replace(_IN_TRANSACTIONS, budgets=OffsetBudgets(crashes=1)), "reprocessed"),
    ("replicated_first", _FAILOVER, "reprocessed"),
    ("load_first", _FAILOVER, "reprocessed"),
    ("truncation_check", _LOST, "unprocessed"),
)


def mutations() -> Iterator[Mutation]:
    """Yield the result for each guard."""
    for guard, model, anomaly in MUTANTS:
        broken = replace(model, checks=replace(OffsetChecks(), **{guard: False}))
        before, after = (search(one).traces.get(anomaly) for one in (model, broken))
        yield Mutation(
            guard=guard,
            anomaly=anomaly,
            steps=len(after) if after else None,
            before=len(before) if before else None,
        )
