"""The transaction log: what a coordinator writes to its partition, and what the next one loads.

`__transaction_state` is a replicated partition like any other, written with acks=all and the
minimum ISR `transaction.state.log.min.isr`. Replication itself is not modelled here: a failover
keeps every record, unless the adversary may lose some (`coordinator_losses`).
"""

from __future__ import annotations

from collections.abc import Iterator

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


def loaded(log: Log) -> tuple[Log, ...]:
    """Return what the next coordinator may load after a failover that loses no committed record.

    All of it: a change takes effect when all in-sync replicas have it
    (`TransactionStateManager.appendTransactionToLog`, acks -1), and the next coordinator answers
    when it has loaded the whole log (COORDINATOR_LOAD_IN_PROGRESS). It continues with a prepared
    outcome, and sends all its markers again (`TransactionCoordinator.onElection`, KIP-98).
    """
    return (log,)


def older(log: Log) -> Iterator[Log]:
    """Yield what the next coordinator may load if the log lost records at its end.

    An empty log: nobody knows the transactional.id, so requests of its producers are refused
    (INVALID_PRODUCER_ID_MAPPING).
    """
    for kept in range(1, len(log)):
        yield log[:kept]
    yield (log[0]._replace(state=Txn.DEAD, partitions=0),)
