"""The transaction log: the records of a coordinator, and the state that the next coordinator loads.

`__transaction_state` is written with acks=all and `transaction.state.log.min.isr`. Its replication
is not modelled: a failover keeps every record, unless the budgets have `coordinator_losses`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ackproof_model.transactions.state import PREPARED, Coordinator, Txn

Log = tuple[Coordinator, ...]


def appended(log: Log, coordinator: Coordinator) -> Log:
    """Return the log after the coordinator reached this state.

    Written markers are not logged (`TransactionMarkerChannelManager` has them in memory).
    """
    last = log[-1]
    marking = coordinator.state in PREPARED and coordinator.state is last.state
    if coordinator == last or (marking and coordinator.epoch == last.epoch):
        return log
    return (*log, coordinator)


def loaded(log: Log) -> tuple[Log, ...]:
    """Return the log that the next coordinator loads after a failover without loss: all of it.

    A change takes effect when all in-sync replicas have it
    (`TransactionStateManager.appendTransactionToLog`, acks -1), and the next coordinator answers
    when it has loaded the whole log (COORDINATOR_LOAD_IN_PROGRESS). It continues with a prepared
    outcome, and sends all its markers again (`TransactionCoordinator.onElection`, KIP-98).
    """
    return (log,)


def older(log: Log) -> Iterator[Log]:
    """Yield the logs that the next coordinator may load if records at the end were lost.

    After an empty log the transactional.id is unknown, so requests of its producers are refused
    (INVALID_PRODUCER_ID_MAPPING).
    """
    for kept in range(1, len(log)):
        yield log[:kept]
    yield (log[0]._replace(state=Txn.DEAD, partitions=0),)
