"""Each guard of committed offsets is removed: an anomaly must become possible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ackproof_model.consumer_groups.bounds import OffsetBudgets, OffsetChecks, OffsetModel
from ackproof_model.consumer_groups.search import search
from specifications.mutation_score import Mutation

_ONE_REBALANCE = OffsetBudgets(rebalances=1)
_IN_TRANSACTIONS = OffsetModel(kafka_version="4.3.1", commit="transaction", budgets=_ONE_REBALANCE)

#: A guard, and a model that allows `reprocessed` only without it.
MUTANTS = (
    (
        "generation_check",
        OffsetModel(kafka_version="4.3.1", commit="before", budgets=_ONE_REBALANCE),
    ),
    ("transaction_generation_check", _IN_TRANSACTIONS),
    ("stable_fetch", _IN_TRANSACTIONS),
    ("id_fencing", replace(_IN_TRANSACTIONS, kafka_version="2.4.1", same_id=True)),
    ("atomic", replace(_IN_TRANSACTIONS, budgets=OffsetBudgets(crashes=1))),
)


def mutations() -> Iterator[Mutation]:
    """Yield the result for each guard."""
    for guard, model in MUTANTS:
        broken = replace(model, checks=replace(OffsetChecks(), **{guard: False}))
        before, after = (search(one).traces.get("reprocessed") for one in (model, broken))
        yield Mutation(
            guard=guard,
            anomaly="reprocessed",
            steps=len(after) if after else None,
            before=len(before) if before else None,
        )
