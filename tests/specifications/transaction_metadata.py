"""The transaction coordinator's metadata of a transactional.id, and its permitted changes.

The rules are those of `TransactionMetadata` (`kafka.coordinator.transaction`, from 4.2
`org.apache.kafka.coordinator.transaction`), exact to every field. A change is prepared, written to
the transaction log, then completed. Until then it is pending, and no other can be prepared.

A violated invariant throws an exception in Kafka; here it returns an `Error`.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from enum import Enum, IntEnum

NO_ID = -1
"""No producer id (`RecordBatch.NO_PRODUCER_ID`)."""
NO_EPOCH = -1
"""No producer epoch (`RecordBatch.NO_PRODUCER_EPOCH`)."""
NOT_STARTED = -1
"""Start time if no transaction is open."""
LAST_EPOCH = 2**15 - 1

_BUMPS_SINCE = 2  # transaction.version


class TransactionState(IntEnum):
    """Kafka's `TransactionState`, with its ids in the transaction log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


_S = TransactionState
_ENDED = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
_PREPARED = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
_COMPLETE = frozenset({_S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
#: The states from which each state may be prepared (`validPreviousStates`).
_BEFORE: dict[TransactionState, frozenset[TransactionState]] = {
    _S.EMPTY: _ENDED,
    _S.ONGOING: _ENDED | {_S.ONGOING},
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    _S.PREPARE_ABORT: frozenset({_S.ONGOING, _S.PREPARE_EPOCH_FENCE}),
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
    _S.DEAD: _ENDED,
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.ONGOING}),
}


class Error(Enum):
    """Kafka's error codes, and two exceptions."""

    NONE = "NONE"
    CONCURRENT_TRANSACTIONS = "CONCURRENT_TRANSACTIONS"
    COORDINATOR_LOAD_IN_PROGRESS = "COORDINATOR_LOAD_IN_PROGRESS"
    COORDINATOR_NOT_AVAILABLE = "COORDINATOR_NOT_AVAILABLE"
    INVALID_PRODUCER_ID_MAPPING = "INVALID_PRODUCER_ID_MAPPING"
    INVALID_TRANSACTION_TIMEOUT = "INVALID_TRANSACTION_TIMEOUT"
    INVALID_TXN_STATE = "INVALID_TXN_STATE"
    NOT_COORDINATOR = "NOT_COORDINATOR"
    PRODUCER_FENCED = "PRODUCER_FENCED"
    TRANSACTION_ABORTABLE = "TRANSACTION_ABORTABLE"
    UNKNOWN_SERVER_ERROR = "UNKNOWN_SERVER_ERROR"
    ILLEGAL_STATE = "IllegalStateException"
    ILLEGAL_ARGUMENT = "IllegalArgumentException"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorRules:
    """The rules that depend on the coordinator's Kafka version.

    empty_aborts: a transaction that was not begun may be aborted; since 4.0 (KIP-890 part 2).
    pending_first: AddPartitionsToTxn, too, checks for a pending change before id and epoch; since
        4.0.
    double_bump: a fence raises the epoch by itself before its abort does, with transactions v2; in
        4.0.0 (KAFKA-19367).
    takes_all: a completed change replaces all fields; before 4.1 only those of its kind.
    keeps_last_epoch: a fence keeps the previous epoch; before 4.2 it cleared it.
    wraps: in comparisons, epoch -32768 follows 32767; since 4.2.
    hides_errors: InitProducerId returns UNKNOWN_SERVER_ERROR if incrementing the epoch violates an
        invariant; since 4.2.
    last_epoch_ends: a transaction can be fenced and aborted at the highest epoch, and its fence
        gets a new producer id when the epochs are exhausted; since 4.3.
    """

    empty_aborts: bool
    pending_first: bool
    double_bump: bool
    takes_all: bool
    keeps_last_epoch: bool
    wraps: bool
    hides_errors: bool
    last_epoch_ends: bool

    @classmethod
    def of(cls, version: tuple[int, ...]) -> CoordinatorRules:
        """Return the rules of a release, given as its numbers: ``(4, 3, 1)``."""
        return cls(
            empty_aborts=version >= (4,),
            pending_first=version >= (4,),
            double_bump=version == (4, 0, 0),
            takes_all=version >= (4, 1),
            keeps_last_epoch=version >= (4, 2),
            wraps=version >= (4, 2),
            hides_errors=version >= (4, 2),
            last_epoch_ends=version >= (4, 3),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Transit:
    """A prepared change (`TxnTransitMetadata`), as it is written to the transaction log."""

    producer_id: int
    prev_id: int
    next_id: int
    epoch: int
    last_epoch: int
    timeout: int
    state: TransactionState
    partitions: frozenset[int]
    started: int
    updated: int
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The metadata of a transactional.id (`TransactionMetadata`).

    producer_id, prev_id: the current and the previous id. next_id: the id that the producer gets
    once the markers are written, if its epochs are exhausted. last_epoch: the previous epoch.
    timeout, started, updated: milliseconds. partitions: those in the transaction that have no
    marker yet. version: the `transaction.version` that the client used last. pending: the state of
    the prepared change. failed_fence: a fence that could not be written has raised the epoch, so
    that the next one does not.
    """

    producer_id: int
    prev_id: int = NO_ID
    next_id: int = NO_ID
    epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    timeout: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[int] = frozenset()
    started: int = NOT_STARTED
    updated: int
    version: int = 0
    pending: TransactionState | None = None
    failed_fence: bool = False

    @property
    def exhausted(self) -> bool:
        """Whether a producer must not get a higher epoch (`isProducerEpochExhausted`)."""
        return exhausted(self.epoch)


Prepared = tuple[Transit | Error, Metadata]
"""A prepared change or the error, and the metadata afterwards."""


def bumps(version: int) -> bool:
    """Whether each transaction has an epoch of its own (`supportsEpochBump`, KIP-890)."""
    return version >= _BUMPS_SINCE


def exhausted(epoch: int) -> bool:
    """Whether a producer must not get a higher epoch: the highest is reserved for fencing it."""
    return epoch >= LAST_EPOCH - 1


def no_change(now: Metadata) -> Transit:
    """Return the metadata as a change that changes nothing (`prepareNoTransit`)."""
    return Transit(
        producer_id=now.producer_id,
        prev_id=now.prev_id,
        next_id=now.next_id,
        epoch=now.epoch,
        last_epoch=now.last_epoch,
        timeout=now.timeout,
        state=now.state,
        partitions=now.partitions,
        started=now.started,
        updated=now.updated,
        version=now.version,
    )


def fence(now: Metadata, rules: CoordinatorRules) -> Prepared:
    """Prepare to fence the producer and abort its transaction (`prepareFenceProducerEpoch`)."""
    if now.epoch == LAST_EPOCH and not rules.last_epoch_ends:
        return Error.ILLEGAL_STATE, now
    kept = now.failed_fence or now.epoch == LAST_EPOCH
    change = replace(
        _to(now, TransactionState.PREPARE_EPOCH_FENCE, rules),
        epoch=now.epoch if kept else now.epoch + 1,
        last_epoch=now.last_epoch if rules.keeps_last_epoch else NO_EPOCH,
    )
    return _prepared(now, change, rules)


def increment_epoch(
    now: Metadata, rules: CoordinatorRules, *, timeout: int, expected: int | None, at: int
) -> Prepared:
    """Prepare to give a producer its next epoch (`prepareIncrementProducerEpoch`, KIP-360).

    expected: the epoch of a producer that continues, None for a new one. The previous epoch means
    that the response to an earlier request was lost.
    """
    if now.exhausted:
        return Error.ILLEGAL_STATE, now
    if expected is None:
        epoch, last = now.epoch + 1, NO_EPOCH
    elif now.epoch in {expected, NO_EPOCH}:
        epoch, last = now.epoch + 1, now.epoch
    elif expected == now.last_epoch:
        epoch, last = now.epoch, now.last_epoch
    else:
        return Error.PRODUCER_FENCED, now
    change = replace(_emptied(now, rules, timeout=timeout, at=at), epoch=epoch, last_epoch=last)
    return _prepared(now, change, rules)


def rotate_id(
    now: Metadata,
    rules: CoordinatorRules,
    *,
    producer_id: int,
    timeout: int,
    at: int,
    record_last: bool,
) -> Prepared:
    """Prepare a new id, as the epochs are exhausted (`prepareProducerIdRotation`)."""
    if now.state is TransactionState.ONGOING or now.state in _PREPARED:
        return Error.ILLEGAL_STATE, now
    change = replace(
        _emptied(now, rules, timeout=timeout, at=at),
        producer_id=producer_id,
        epoch=0,
        last_epoch=now.epoch if record_last else NO_EPOCH,
    )
    return _prepared(now, change, rules)


def add_partitions(
    now: Metadata, rules: CoordinatorRules, partitions: Set[int], *, at: int, version: int
) -> Prepared:
    """Prepare to add partitions; the first ones begin the transaction (`prepareAddPartitions`)."""
    change = replace(
        _to(now, TransactionState.ONGOING, rules),
        partitions=now.partitions | partitions,
        started=at if now.state in _ENDED else now.started,
        updated=at,
        version=version,
    )
    return _prepared(now, change, rules)


def end(
    now: Metadata,
    rules: CoordinatorRules,
    *,
    state: TransactionState,
    version: int,
    next_id: int,
    at: int,
    nothing_added: bool,
) -> Prepared:
    """Prepare to commit or to abort, as `state` says (`prepareAbortOrCommit`).

    nothing_added: the transaction was not begun.
    """
    epoch, last = now.epoch, now.last_epoch
    if bumps(version):
        last = now.epoch
        aborts = state is TransactionState.PREPARE_ABORT
        if not (rules.last_epoch_ends and now.epoch == LAST_EPOCH and aborts):
            epoch = _short(now.epoch + 1)
    change = replace(
        _to(now, state, rules),
        next_id=next_id,
        epoch=epoch,
        last_epoch=last,
        started=at if nothing_added else now.started,
        updated=at,
        version=version,
    )
    return _prepared(now, change, rules)


def complete(now: Metadata, rules: CoordinatorRules, *, at: int) -> Prepared:
    """Prepare the change that follows when every marker is written (`prepareComplete`).

    If the epochs are exhausted, the producer then gets its next id.
    """
    commits = now.state is TransactionState.PREPARE_COMMIT
    state = TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT
    renewed = bumps(now.version) and now.next_id != NO_ID
    now = replace(now, failed_fence=False)
    change = replace(
        _to(now, state, rules),
        producer_id=now.next_id if renewed else now.producer_id,
        next_id=NO_ID,
        epoch=0 if renewed else now.epoch,
        partitions=frozenset(),
        updated=at,
    )
    return _prepared(now, change, rules)


def die(now: Metadata, rules: CoordinatorRules) -> Prepared:
    """Prepare to remove an expired transactional.id (`prepareDead`)."""
    change = replace(_to(now, TransactionState.DEAD, rules), partitions=frozenset())
    return _prepared(now, change, rules)


def without_partition(now: Metadata, partition: int) -> Metadata | Error:
    """Return the metadata after a partition got its marker (`removePartition`)."""
    if now.state not in _PREPARED:
        return Error.ILLEGAL_STATE
    return replace(now, partitions=now.partitions - {partition})


def completed(now: Metadata, change: Transit, rules: CoordinatorRules) -> Metadata | Error:
    """Return the metadata after a change is in the transaction log (`completeTransitionTo`)."""
    if now.pending is not change.state or not _fits(now, change, rules):
        return Error.ILLEGAL_STATE
    known = replace(
        now,
        producer_id=change.producer_id,
        prev_id=change.prev_id,
        next_id=change.next_id,
        epoch=change.epoch,
        last_epoch=change.last_epoch,
        timeout=change.timeout,
        partitions=change.partitions,
        started=change.started,
    )
    if not rules.takes_all:
        known = _taken_before_4_1(now, change, known)
    return replace(
        known,
        state=change.state,
        updated=change.updated,
        version=change.version,
        pending=None,
    )


def _taken_before_4_1(now: Metadata, change: Transit, known: Metadata) -> Metadata:
    """Return the metadata with the fields that this kind of change replaced before 4.1."""
    match change.state:
        case TransactionState.EMPTY:
            return replace(
                known, next_id=now.next_id, partitions=now.partitions, started=now.started
            )
        case TransactionState.ONGOING:
            return replace(now, started=change.started, partitions=change.partitions)
    if change.state in _PREPARED:
        return replace(known, prev_id=now.prev_id) if bumps(change.version) else now
    with_epoch = known if bumps(change.version) else now
    return replace(with_epoch, started=change.started, partitions=frozenset())


def _fits(now: Metadata, change: Transit, rules: CoordinatorRules) -> bool:
    """Whether a change is valid for the metadata; if not, the coordinator is broken."""
    if change.state is TransactionState.EMPTY:
        next_epoch = _short(now.epoch + 1) if rules.wraps else now.epoch + 1
        renewed = change.epoch == 0 and change.producer_id != now.producer_id
        bumped = change.epoch in (now.epoch, next_epoch) or renewed
        return bumped and not change.partitions and change.started == NOT_STARTED
    if not _valid_epoch(now, change) or change.timeout != now.timeout:
        return False
    if change.state is TransactionState.ONGOING:
        return now.partitions <= change.partitions
    if change.state in _PREPARED:
        aborts = change.state is TransactionState.PREPARE_ABORT
        empty_abort = aborts and bumps(change.version) and now.state in _ENDED
        timely = change.started == now.started or empty_abort
        return timely and change.partitions == now.partitions
    return change.state in _COMPLETE and change.started != NOT_STARTED


def _valid_epoch(now: Metadata, change: Transit) -> bool:
    """Whether a change names the current producer and epoch, or the previous if it renews them.

    `validProducerEpoch`.
    """
    if bumps(change.version):
        if change.state in _PREPARED:
            return change.last_epoch == now.epoch and change.producer_id == now.producer_id
        if change.state in _COMPLETE and change.epoch == 0:
            return change.last_epoch == now.last_epoch and change.prev_id == now.producer_id
    return change.epoch == now.epoch and change.producer_id == now.producer_id


def _short(number: int) -> int:
    """Return a number as a signed 16-bit integer."""
    return (number + 2**15) % 2**16 - 2**15


def _to(now: Metadata, state: TransactionState, rules: CoordinatorRules) -> Transit:
    """Return a change of the state alone."""
    return replace(
        no_change(now),
        state=state,
        prev_id=now.producer_id,
        next_id=now.next_id if rules.takes_all else NO_ID,
    )


def _emptied(now: Metadata, rules: CoordinatorRules, *, timeout: int, at: int) -> Transit:
    """Return a change to no transaction."""
    return replace(
        _to(now, TransactionState.EMPTY, rules),
        timeout=timeout,
        partitions=frozenset(),
        started=NOT_STARTED,
        updated=at,
    )


def _prepared(now: Metadata, change: Transit, rules: CoordinatorRules) -> Prepared:
    """Make a change pending if that is valid (`prepareTransitionTo`)."""
    if now.pending is not None:
        return Error.ILLEGAL_STATE, now
    if change.producer_id < 0:
        return Error.ILLEGAL_ARGUMENT, now
    if change.epoch < 0 and change.state is not TransactionState.DEAD:
        return Error.ILLEGAL_ARGUMENT, now
    before = _BEFORE[change.state]
    if rules.empty_aborts and change.state is TransactionState.PREPARE_ABORT:
        before |= _ENDED
    if now.state not in before:
        return Error.ILLEGAL_STATE, now
    return change, replace(now, pending=change.state)
