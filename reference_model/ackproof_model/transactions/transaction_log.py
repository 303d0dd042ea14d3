"""The transaction log: what a coordinator writes to its partition, and what the next one loads.

`__transaction_state` is a replicated partition like any other, written with acks=all and the
minimum ISR `transaction.state.log.min.isr`. Replication itself is not modelled here: a failover
keeps every record, unless the adversary may lose some (`coordinator_losses`).
"""

from __future__ import annotations

from collections.abc import Iterator

from ackproof_model.transactions.bounds import TransactionModel
from ackproof_model.transactions.state import PREPARED, Coordinator, Txn

Log = tuple[Coordinator, ...]


def appended(log: Log, coordinator: Coordinator) -> Log:
    """Return the log after the coordinator came to this state.

    Which markers are written is not logged (`TransactionMarkerChannelManager` keeps it in memory).
    """
    last = log[-1]
    marking = coordinator.state in PREPARED and coordinator.state is last.state
    if coordinator == last or (marking and coordinator.epoch == last.epoch):
        return log
    return (*log, coordinator)


def loaded(model: TransactionModel, log: Log) -> Iterator[Log]:
    """Yield what the next coordinator may load after a failover that loses no committed record."""
    checks = model.checks
    whole = log
    while whole[-1].state in PREPARED and not checks.prepare_first:
        whole = whole[:-1]
    if whole[-1].state in PREPARED and not checks.markers_resent:
        complete = Txn(whole[-1].state + 2)
        whole = (*whole[:-1], whole[-1]._replace(state=complete, partitions=0))
    yield whole
    if not checks.replicated_first and len(whole) > 1:
        yield whole[:-1]
    if not checks.load_first:
        yield from older(whole)


def older(log: Log) -> Iterator[Log]:
    """Yield what the next coordinator may load if the log lost records at its end.

    An empty log: nobody knows the transactional.id, so requests of its producers are refused
    (INVALID_PRODUCER_ID_MAPPING).
    """
    for kept in range(1, len(log)):
        yield log[:kept]
    yield (log[0]._replace(state=Txn.DEAD, partitions=0),)
