"""Each guard of committed offsets is removed: an anomaly must become possible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ackproof_model.consumer_groups import members
from ackproof_model.consumer_groups.members import Member, State, Step, left, spent
from ackproof_model.consumer_groups.model import OffsetBudgets, OffsetModel
from specifications.mutation_score import Mutant
from specifications.wrong_rules import always, with_wrong

_ONE_REBALANCE = OffsetBudgets(rebalances=1)
_IN_TRANSACTIONS = OffsetModel(kafka_version="4.3.1", commit="transaction", budgets=_ONE_REBALANCE)

_BEFORE = OffsetModel(kafka_version="4.3.1", commit="before", budgets=_ONE_REBALANCE)
_FAILOVER = replace(_BEFORE, budgets=OffsetBudgets(crashes=1, failovers=1))
_LOST = replace(_BEFORE, commit="after", budgets=OffsetBudgets(log_losses=1))

_IN_TRANSACTION, _MOVES = members._in_transactions, members._coordinator_moves
_MAY_RETURN = members._may_return


def _torn(model: OffsetModel, state: State, number: int, member: Member) -> Iterator[Step]:
    """Commit records without their offsets: the member may be killed between the two."""
    for label, after in _IN_TRANSACTION(model, state, number, member):
        yield label, after
        if member.open and left(state, "crashes"):
            killed = after.members[number]._replace(alive=False, committed=member.committed)
            halfway = members._with(after, number, killed)._replace(offset=state.offset)
            yield f"{label}, and is killed", spent(halfway, "crashes")


def _moves_to(*offsets: str) -> object:
    """Return a failover after which the coordinator may know an earlier offset, or none."""

    def moves(state: State) -> Iterator[Step]:
        if left(state, "failovers"):
            moved = spent(state, "failovers")
            if "earlier" in offsets and state.earlier:
                yield "the coordinator fails over", moved._replace(offset=state.earlier[-1])
            if "none" in offsets:
                yield "the coordinator fails over", moved._replace(offset=None)
        yield from _MOVES(state)

    return moves


#: By guard: the rules that have it, each with the one that a Kafka without the guard would have.
WRONG: dict[str, list[tuple[object, str, object]]] = {
    # A commit of an older generation is refused (ILLEGAL_GENERATION).
    "generation_check": [(members, "_accepted", always)],
    "transaction_generation_check": [(OffsetModel, "checks_transactions", False)],
    "stable_fetch": [(OffsetModel, "waits", False)],
    "id_fencing": [(OffsetModel, "fences_ids", False)],
    # Offsets and records of a transaction take effect together (KIP-98).
    "atomic": [(members, "_in_transactions", _torn)],
    # A commit is answered when all in-sync replicas of `__consumer_offsets` have it.
    "replicated_first": [
        (members, "_coordinator_moves", _moves_to("earlier")),
        (members, "_may_return", lambda state: _MAY_RETURN(state) or left(state, "failovers")),
    ],
    # A new coordinator answers when it has loaded the group's offsets.
    "load_first": [(members, "_coordinator_moves", _moves_to("none"))],
    "truncation_check": [(OffsetModel, "notices_truncation", False)],
}

MUTANTS = tuple(
    Mutant(guard=guard, model=model, without=partial(with_wrong, WRONG[guard]), anomaly=anomaly)
    for guard, model, anomaly in (
        ("generation_check", _BEFORE, "reprocessed"),
        ("transaction_generation_check", _IN_TRANSACTIONS, "reprocessed"),
        ("stable_fetch", _IN_TRANSACTIONS, "reprocessed"),
        (
            "id_fencing",
            replace(_IN_TRANSACTIONS, kafka_version="2.4.1", same_id=True),
            "reprocessed",
        ),
        ("atomic", replace(_IN_TRANSACTIONS, budgets=OffsetBudgets(crashes=1)), "reprocessed"),
        ("replicated_first", _FAILOVER, "reprocessed"),
        ("load_first", _FAILOVER, "reprocessed"),
        ("truncation_check", _LOST, "unprocessed"),
    )
)
