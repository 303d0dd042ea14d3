"""The anomalies of transactions, and the search for a shortest trace to each."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ackproof_model.breadth_first import SearchResult, explore
from ackproof_model.transactions import log
from ackproof_model.transactions.markers import marker, markers
from ackproof_model.transactions.model import TransactionModel
from ackproof_model.transactions.state import (
    PREPARED,
    Fate,
    State,
    Txn,
    initial,
)
from ackproof_model.transactions.successors import successors

#: aborted-read (G1a): read_committed returns a record of a transaction without a commit request.
#: lost: a transaction was acked as committed, and one of its acked records is aborted or missing.
#: torn: a transaction is committed in one partition and aborted in another, for good (that one
#: partition gets its marker before the other is no anomaly).
#: zombie-write, zombie-commit: a record is appended, a transaction is committed, of a producer
#: with a successor. duplicated: a log has a record twice. hanging: a log has an open
#: transaction that the coordinator does not know, so the last stable offset stands still.
#: unmarked: such a transaction was acked as committed. stuck: a log refuses a marker that the
#: coordinator must write, so no transaction can begin.
ANOMALIES = (
    "aborted-read",
    "lost",
    "torn",
    "zombie-write",
    "zombie-commit",
    "duplicated",
    "hanging",
    "unmarked",
    "stuck",
)


def anomalies(model: TransactionModel, state: State) -> Iterator[str]:
    logs = [partition.log for partition in state.partitions]
    readable = [log.readable(one) for one in logs]
    aborted = [log.aborted(one) for one in logs]
    for transaction, (fate, acked) in enumerate(state.outcomes):
        if fate is Fate.OPEN and any(transaction in one for one in readable):
            yield "aborted-read"
        if fate is Fate.ZOMBIE:
            yield "zombie-commit"
        gone = [
            at
            for at, one in enumerate(logs)
            if acked >> at & 1
            and transaction not in log.committed(one)
            and (transaction in aborted[at] or all(e.transaction != transaction for e in one))
        ]
        if gone and fate in {Fate.COMMITTED, Fate.ZOMBIE}:
            yield "lost"
        if gone and any(transaction in log.committed(one) for one in logs):
            yield "torn"
    yield from _of_logs(model, state)


def _of_logs(model: TransactionModel, state: State) -> Iterator[str]:
    coordinator = state.coordinator
    known = coordinator.state is Txn.ONGOING or coordinator.state in PREPARED
    for at, partition in enumerate(state.partitions):
        records = [entry for entry in partition.log if entry.transaction >= 0]
        if any(entry.zombie for entry in records):
            yield "zombie-write"
        if len({entry.transaction for entry in records}) < len(records):
            yield "duplicated"
        if log.is_open(partition) and not (known and coordinator.partitions >> at & 1):
            yield "hanging"
            if any(_awaits_marker(state, at, entry.transaction) for entry in records):
                yield "unmarked"
    for request in markers(coordinator):
        if log.marked(model, state.partitions[request.partition], marker(request)) is None:
            yield "stuck"


def _awaits_marker(state: State, at: int, transaction: int) -> bool:
    """Whether a transaction was acked as committed, and no marker in this log has ended it."""
    entries = state.partitions[at].log
    ended = log.committed(entries) | log.aborted(entries)
    committed = state.outcomes[transaction].fate in {Fate.COMMITTED, Fate.ZOMBIE}
    return committed and transaction not in ended


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
