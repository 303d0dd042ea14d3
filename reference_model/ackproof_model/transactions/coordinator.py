"""The transaction coordinator: its answer to each request, and its state afterwards.

The rules follow `TransactionCoordinator` and `TransactionMetadata`; `tests/conformance` compares
each answer with that of Kafka's class. A change is written to the transaction log
(`transaction_log`) and answered in one step. While markers are due, the change that follows them is
pending in Kafka.
"""

from __future__ import annotations

from enum import Enum

from ackproof_model.transactions.model import TransactionModel
from ackproof_model.transactions.state import PREPARED, Coordinator, Txn


class Answer(Enum):
    """The coordinator's error codes."""

    NONE = "NONE"
    CONCURRENT_TRANSACTIONS = "CONCURRENT_TRANSACTIONS"
    PRODUCER_FENCED = "PRODUCER_FENCED"
    INVALID_TXN_STATE = "INVALID_TXN_STATE"
    INVALID_PRODUCER_ID_MAPPING = "INVALID_PRODUCER_ID_MAPPING"


Answered = tuple[Answer, Coordinator]


def init_producer_id(
    model: TransactionModel, coordinator: Coordinator, expected: int | None
) -> Answered:
    """`handleInitProducerId`: a new epoch, once no transaction is open (KIP-98, KIP-360).

    expected: the epoch of a producer that requests a new one for itself, None for a new producer.
    """
    state = coordinator.state
    if state is Txn.DEAD:
        return Answer.INVALID_PRODUCER_ID_MAPPING, coordinator
    if state in PREPARED:
        return Answer.CONCURRENT_TRANSACTIONS, coordinator
    if state is Txn.ONGOING:  # even if an older producer asks
        return Answer.CONCURRENT_TRANSACTIONS, fence(model, coordinator)
    if expected is not None and expected != coordinator.epoch:
        return Answer.PRODUCER_FENCED, coordinator
    return Answer.NONE, Coordinator(Txn.EMPTY, coordinator.epoch + 1, 0, coordinator.term)


def fence(model: TransactionModel, coordinator: Coordinator) -> Coordinator:
    """Return it after it has aborted an open transaction itself (`prepareFenceProducerEpoch`)."""
    return _prepared(coordinator, coordinator.epoch + model.fence_bumps, commit=False)


def add_partitions(
    model: TransactionModel, coordinator: Coordinator, epoch: int, partition: int
) -> Answered:
    """`handleAddPartitionsToTransaction`: the first one begins the transaction."""
    refused = _refused(coordinator, epoch)
    if refused is not None and _awaits_markers(coordinator) and model.pending_first:
        refused = Answer.CONCURRENT_TRANSACTIONS
    if refused is not None:
        return refused, coordinator
    ongoing = coordinator.state is Txn.ONGOING
    before = coordinator.partitions if ongoing else 0
    return Answer.NONE, coordinator._replace(state=Txn.ONGOING, partitions=before | 1 << partition)


def verify(coordinator: Coordinator, epoch: int, partition: int) -> Answer:
    """`handleVerifyPartitionsInTransaction`: whether a partition is in the open transaction.

    Since 3.8 the error for a partition that is not in it is TRANSACTION_ABORTABLE.
    """
    refused = _refused(coordinator, epoch)
    if refused is not None:
        return refused
    known = coordinator.state is Txn.ONGOING and coordinator.partitions >> partition & 1
    return Answer.NONE if known else Answer.INVALID_TXN_STATE


def _awaits_markers(coordinator: Coordinator) -> bool:
    """Whether markers of the last transaction are due, so nothing can be added (KIP-98)."""
    return coordinator.state in PREPARED


def _is_current(coordinator: Coordinator, epoch: int) -> bool:
    """Whether a request has the producer epoch that the coordinator knows (KIP-98)."""
    return epoch == coordinator.epoch


def _refused(coordinator: Coordinator, epoch: int) -> Answer | None:
    if coordinator.state is Txn.DEAD:
        return Answer.INVALID_PRODUCER_ID_MAPPING
    if not _is_current(coordinator, epoch):
        return Answer.PRODUCER_FENCED
    if _awaits_markers(coordinator):
        return Answer.CONCURRENT_TRANSACTIONS
    return None


def end_txn(
    model: TransactionModel, coordinator: Coordinator, epoch: int, *, commit: bool
) -> Answered:
    """`endTransaction`: protocol 1 decides by the state; with 2, a retry has the previous epoch.

    The response says that the outcome is in the transaction log; markers follow.
    """
    refused = _end_refused(model, coordinator, epoch)
    if refused is not None:
        return refused, coordinator
    if coordinator.state is Txn.ONGOING:
        bumped = coordinator.epoch + model.bumps
        return Answer.NONE, _prepared(coordinator, bumped, commit=commit)
    if model.bumps and epoch == coordinator.epoch:  # not a retry: no transaction was begun in it
        if commit:
            return Answer.INVALID_TXN_STATE, coordinator
        return Answer.NONE, _prepared(coordinator, epoch + 1, commit=False)
    return _retried(coordinator, commit=commit), coordinator


def _end_refused(model: TransactionModel, coordinator: Coordinator, epoch: int) -> Answer | None:
    """Return why the transaction cannot be ended; protocol 2 checks due markers first."""
    if coordinator.state is Txn.DEAD:
        return Answer.INVALID_PRODUCER_ID_MAPPING
    pending = coordinator.state in PREPARED
    if not (pending and model.bumps) and not _valid(model, coordinator, epoch):
        return Answer.PRODUCER_FENCED
    return Answer.CONCURRENT_TRANSACTIONS if pending else None


def _valid(model: TransactionModel, coordinator: Coordinator, epoch: int) -> bool:
    same, again = epoch == coordinator.epoch, epoch + 1 == coordinator.epoch
    if not model.bumps or coordinator.state in {Txn.EMPTY, Txn.ONGOING}:
        return same
    return again or same


def _retried(coordinator: Coordinator, *, commit: bool) -> Answer:
    """Return the answer about a transaction that has ended: the request may be a retry."""
    if coordinator.state is (Txn.COMPLETE_COMMIT if commit else Txn.COMPLETE_ABORT):
        return Answer.NONE
    return Answer.INVALID_TXN_STATE


def _prepared(coordinator: Coordinator, epoch: int, *, commit: bool) -> Coordinator:
    state = Txn.PREPARE_COMMIT if commit else Txn.PREPARE_ABORT
    partitions = coordinator.partitions if coordinator.state is Txn.ONGOING else 0
    return completed(Coordinator(state, epoch, partitions, coordinator.term))


def completed(coordinator: Coordinator) -> Coordinator:
    """Return it once the last marker is written (`prepareComplete`)."""
    if coordinator.partitions or coordinator.state not in PREPARED:
        return coordinator
    commits = coordinator.state is Txn.PREPARE_COMMIT
    return coordinator._replace(state=Txn.COMPLETE_COMMIT if commits else Txn.COMPLETE_ABORT)
