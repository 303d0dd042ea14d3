"""The search for the shortest way to each anomaly of transactions."""

from __future__ import annotations

from collections.abc import Collection

from ackproof_model.breadth_first import Found, explore
from ackproof_model.transactions.anomalies import anomalies
from ackproof_model.transactions.bounds import TransactionQuestion
from ackproof_model.transactions.state import State, initial
from ackproof_model.transactions.successors import successors

#: A search stores at most so many states.
MAX_STATES = 2_000_000


def search(
    question: TransactionQuestion,
    *,
    wanted: Collection[str] = (),
    max_states: int = MAX_STATES,
) -> Found[str, State]:
    """Search all that may happen to a transactional.id, or until all `wanted` are found."""
    return explore(
        initial(question),
        lambda state: successors(question, state),
        lambda state: anomalies(question, state),
        wanted=wanted,
        max_states=max_states,
    )
