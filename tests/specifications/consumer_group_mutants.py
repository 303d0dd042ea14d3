"""Each guard of committed offsets taken away: an anomaly must become possible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ackproof_model.consumer_groups.bounds import OffsetBudgets, OffsetChecks, OffsetModel
from ackproof_model.consumer_groups.search import search
from specifications.mutation_score import Mutation

_THROWN_OUT = OffsetBudgets(rebalances=1)
_IN_TRANSACTIONS = OffsetModel(kafka_version="4.3.1", commit="transaction", budgets=_THROWN_OUT)

#: A guard, and a model whose answer changes without it: what was processed once is then twice.
MUTANTS = (
    (
        "generation_check",
        OffsetModel(kafka_version="4.3.1", commit="before", budgets=_THROWN_OUT),
    ),
    ("transaction_generation_check", _IN_TRANSACTIONS),
    ("stable_fetch", _IN_TRANSACTIONS),
    ("id_fencing", replace(_IN_TRANSACTIONS, kafka_version="2.4.1", same_id=True)),
    ("atomic", replace(_IN_TRANSACTIONS, budgets=OffsetBudgets(crashes=1))),
)


def mutations() -> Iterator[Mutation]:
    """Yield what is found for each guard."""
    for guard, model in MUTANTS:
        broken = replace(model, checks=replace(OffsetChecks(), **{guard: False}))
        before, after = (search(one).traces.get("reprocessed") for one in (model, broken))
        yield Mutation(
            guard=guard,
            anomaly="reprocessed",
            steps=len(after) if after else None,
            before=len(before) if before else None,
        )
