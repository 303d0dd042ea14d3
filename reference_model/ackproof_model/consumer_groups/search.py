"""The search for a shortest trace to each anomaly of committed offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ackproof_model.breadth_first import SearchResult, explore
from ackproof_model.consumer_groups.bounds import OffsetModel
from ackproof_model.consumer_groups.members import (
    State,
    initial,
    successors,
)

#: unprocessed: no member has processed or will process a record: the at-most-once gap.
#: reprocessed: a record was processed twice: the at-least-once duplicate.
ANOMALIES = ("unprocessed", "reprocessed")

#: The most states that a search stores.
MAX_STATES = 1_000_000


def search(
    model: OffsetModel,
    *,
    until: Collection[str] = (),
    certain: bool = False,
    max_states: int = MAX_STATES,
) -> SearchResult[str, State]:
    """Search all states, or until all anomalies of `until` are found.

    certain: search the certain anomalies, too. A state is final if only perturbations can follow.
    """
    return explore(
        initial(model),
        lambda state: successors(model, state),
        lambda state: anomalies(model, state),
        final=_is_final if certain else None,
        until=until,
        max_states=max_states,
    )


def _is_final(state: State, after: Collection[State]) -> bool:
    return all(one.left != state.left for one in after)


def anomalies(model: OffsetModel, state: State) -> Iterator[str]:
    if any(times > 1 for times in state.effects):
        yield "reprocessed"
    owner = state.members[-1]
    if not owner.alive or owner.generation < state.generation:
        return
    # A transaction's records take effect at its end.
    passed = owner.committed if model.commit == "transaction" else owner.position
    for record in range(min(passed, state.end)):
        if not state.effects[record] and not any(
            # A removed member still processes its polled records.
            member.alive and member.position <= record < member.polled
            for member in state.members[:-1]
        ):
            yield "unprocessed"
