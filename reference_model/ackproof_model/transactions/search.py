"""The search for a shortest trace to each anomaly of transactions."""

from __future__ import annotations

from collections.abc import Collection

from ackproof_model.breadth_first import SearchResult, explore
from ackproof_model.transactions.anomalies import anomalies
from ackproof_model.transactions.bounds import TransactionModel
from ackproof_model.transactions.state import State, initial
from ackproof_model.transactions.successors import successors

#: The most states that a search stores.
MAX_STATES = 2_000_000


def search(
    model: TransactionModel,
    *,
    until: Collection[str] = (),
    max_states: int = MAX_STATES,
) -> SearchResult[str, State]:
    """Search all states, or until all anomalies of `until` are found."""
    return explore(
        initial(model),
        lambda state: successors(model, state),
        lambda state: anomalies(model, state),
        until=until,
        max_states=max_states,
    )
