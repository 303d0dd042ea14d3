"""A log's records and markers of a transaction, and the records that read_committed returns.

The producer state is derived from the appended records and markers by the rules of
`kafka.producer_state`, as Kafka does when it loads a log.
"""

from __future__ import annotations

from functools import lru_cache

from ackproof_model.kafka.producer_state import (
    Batch,
    ProducerState,
    Refusal,
    Verification,
)
from ackproof_model.transactions.model import TransactionModel
from ackproof_model.transactions.state import Entry, Partition

#: The guard of a produce request that has not arrived.
NOT_YET = -2
#: The guard of a request that needed no verification: the log had the transaction open
#: (`VerificationGuard.SENTINEL`).
OPEN_ALREADY = -1


@lru_cache(maxsize=1 << 16)
def known(log: tuple[Entry, ...]) -> ProducerState:
    """Return the producer state of a log (`ProducerStateManager`)."""
    if not log:
        return ProducerState()
    before, last = known(log[:-1]), log[-1]
    if last.transaction >= 0:
        after = before.append(_batch(last.epoch, last.sequence), len(log) - 1)
    else:
        after = before.end_transaction(last.epoch, strict=False)
    assert not isinstance(after, Refusal), "the log has an entry that it refuses"
    return after


def _batch(epoch: int, sequence: int) -> Batch:
    return Batch(epoch=epoch, first=sequence, count=1, transactional=True)


def _term(log: tuple[Entry, ...]) -> int:
    """Return the newest coordinator's epoch (`ProducerAppendInfo.checkCoordinatorEpoch`)."""
    return max((entry.term for entry in log), default=0)


def is_open(partition: Partition) -> bool:
    return known(partition.log).txn_start is not None


def _continues_open(model: TransactionModel, partition: Partition, epoch: int) -> bool:
    """Whether a record continues the log's open transaction (`hasOngoingTransaction`).

    From 4.0, a record of a newer epoch does not: that transaction may have ended (KAFKA-18654).
    """
    same = known(partition.log).epoch == epoch or not model.compares_open
    return is_open(partition) and same


def verified(
    model: TransactionModel, partition: Partition, epoch: int, sequence: int
) -> tuple[Partition, int]:
    """Return the partition once a verification has begun, and its guard.

    `maybeStartTransactionVerification`. A guard is valid until the next append, so the log's length
    can serve as the guard.
    """
    if _continues_open(model, partition, epoch):
        return partition, OPEN_ALREADY
    before = partition.verifying
    if before is None:
        verifying = Verification(epoch=epoch, lowest=sequence, bumps=model.protocol == 2)
    else:
        verifying = before.updated(epoch, sequence)
    return partition._replace(verifying=verifying), len(partition.log)


def _guards(guard: int, log: tuple[Entry, ...]) -> bool:
    """Whether a guard is valid: nothing was appended since it was given (`VerificationGuard`)."""
    return guard == len(log)


def appended(
    model: TransactionModel, partition: Partition, record: Entry, guard: int
) -> Partition | None:
    """Return the partition after a record (unchanged for a duplicate), None if it is refused.

    `UnifiedLog.analyzeAndValidateProducerState`.
    """
    log = partition.log
    producer, batch = known(log), _batch(record.epoch, record.sequence)
    if producer.duplicate(batch) is not None:
        return partition
    verified_before = not model.verifies or _continues_open(model, partition, record.epoch)
    if not verified_before and not _guards(guard, log):
        return None
    first_at_zero = model.profile.first_sequence_zero
    refusal = producer.refusal(batch, verification=partition.verifying, first_at_zero=first_at_zero)
    if refusal is not None:
        return None
    return Partition((*log, record), None)


def marked(model: TransactionModel, partition: Partition, marker: Entry) -> Partition | None:
    """Return the partition after a marker, None if it is refused (`appendEndTxnMarker`)."""
    log = partition.log
    if marker.term < _term(log):
        return None  # TRANSACTION_COORDINATOR_FENCED
    if isinstance(known(log).end_transaction(marker.epoch, strict=model.strict), Refusal):
        return None
    return Partition((*log, marker), None)


@lru_cache(maxsize=1 << 16)
def committed(log: tuple[Entry, ...]) -> frozenset[int]:
    return _ended(log, commit=True)


@lru_cache(maxsize=1 << 16)
def aborted(log: tuple[Entry, ...]) -> frozenset[int]:
    return _ended(log, commit=False)


def _ended(log: tuple[Entry, ...], *, commit: bool) -> frozenset[int]:
    ended: set[int] = set()
    waiting: set[int] = set()
    for entry in log:
        if entry.transaction >= 0:
            waiting.add(entry.transaction)
            continue
        if entry.commit == commit:
            ended |= waiting
        waiting = set()
    return frozenset(ended)


def readable(log: tuple[Entry, ...]) -> frozenset[int]:
    """Return the transactions that read_committed returns records of.

    It ends at the first open one (`UnifiedLog.fetchLastStableOffsetMetadata`), and skips aborted
    ones (`TransactionIndex`, KIP-98).
    """
    return committed(log)
