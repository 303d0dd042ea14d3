"""What a log appends of a transaction, and what a read_committed consumer reads of it.

The producer state is derived from the appended records and markers, as Kafka does when it loads a
log, by the rules of `kafka.producer_state`, which are compared with Kafka's own classes.
"""

from __future__ import annotations

from functools import lru_cache

from ackproof_model.kafka.producer_state import (
    Batch,
    ProducerState,
    Refusal,
    Verification,
)
from ackproof_model.transactions.bounds import TransactionModel
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
    # Refused only where a check is switched off; then the epoch is that of the last entry.
    return ProducerState(epoch=last.epoch) if isinstance(after, Refusal) else after


def _batch(epoch: int, sequence: int) -> Batch:
    return Batch(epoch=epoch, first=sequence, count=1, transactional=True)


def _term(log: tuple[Entry, ...]) -> int:
    return max((entry.term for entry in log), default=0)


def is_open(partition: Partition) -> bool:
    return known(partition.log).txn_start is not None


def _continues_open(model: TransactionModel, partition: Partition, epoch: int) -> bool:
    """Whether a record continues the log's open transaction (`hasOngoingTransaction`).

    From 4.0, one of a newer epoch does not: that transaction may have ended (KAFKA-18654).
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


def appended(
    model: TransactionModel, partition: Partition, record: Entry, guard: int
) -> Partition | None:
    """Return the partition after a record (unchanged for a duplicate), None if it is refused.

    `UnifiedLog.analyzeAndValidateProducerState`.
    """
    log, checks = partition.log, model.checks
    producer, batch = known(log), _batch(record.epoch, record.sequence)
    if checks.dedup and producer.duplicate(batch) is not None:
        return partition
    if model.verifies and not _continues_open(model, partition, record.epoch):
        current = guard == len(log) or not checks.verification_guard
        if guard == OPEN_ALREADY or not current:
            return None
    first_at_zero = model.profile.first_sequence_zero
    refusal = producer.refusal(batch, verification=partition.verifying, first_at_zero=first_at_zero)
    stale = refusal is Refusal.INVALID_PRODUCER_EPOCH and not checks.log_epoch_check
    again = refusal is Refusal.OUT_OF_ORDER_SEQUENCE and not checks.dedup
    if refusal is not None and not stale and not again:
        return None
    return Partition((*log, record), None)


def marked(model: TransactionModel, partition: Partition, marker: Entry) -> Partition | None:
    """Return the partition after a marker, None if it is refused (`appendEndTxnMarker`)."""
    log, checks = partition.log, model.checks
    producer = known(log)
    if checks.term_check and marker.term < _term(log):
        return None  # TRANSACTION_COORDINATOR_FENCED
    after = producer.end_transaction(marker.epoch, strict=model.strict)
    again = model.strict and marker.epoch == producer.epoch
    if again and producer.txn_start is None and not checks.marker_retry:
        return None
    if isinstance(after, Refusal) and (checks.log_epoch_check or again):
        return None
    return Partition((*log, marker), None)


def last_stable_offset(log: tuple[Entry, ...], high_watermark: int) -> int:
    """Return the last stable offset: the first open record, or the high watermark."""
    start = known(log).txn_start
    return high_watermark if start is None else min(start, high_watermark)


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


def readable(model: TransactionModel, log: tuple[Entry, ...]) -> frozenset[int]:
    seen = committed(log)
    if not model.checks.aborted_index:
        seen |= aborted(log)
    if not model.checks.stable_offset:
        end = last_stable_offset(log, len(log))
        seen |= {entry.transaction for entry in log[end:] if entry.transaction >= 0}
    return seen
