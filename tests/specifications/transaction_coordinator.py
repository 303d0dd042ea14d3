"""What the transaction coordinator answers to a request, and what it knows then.

The rules are those of `kafka.coordinator.transaction.TransactionCoordinator` for one
transactional.id, as `transaction_metadata` knows it (None: not at all). Writing to the transaction
log is one step here: it works, or it fails with an error (`appendTransactionToLog`).

Left out: two-phase commit (KIP-939), and a coordinator that loses its partition meanwhile.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

from specifications import transaction_metadata as rule
from specifications.transaction_metadata import (
    LAST_EPOCH,
    NO_EPOCH,
    NO_ID,
    CoordinatorRules,
    Error,
    Metadata,
    Prepared,
    TransactionState,
    Transit,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What is around the coordinator while it handles a request.

    now: milliseconds. version: of transactions, as the cluster has it (`transaction.version`).
    new_id: the producer id it gets if it asks for one, None if it gets none now. log: how the
    transaction log answers. max_timeout: `transaction.max.timeout.ms`.
    """

    rules: CoordinatorRules
    now: int
    version: int
    new_id: int | None
    log: Error = Error.NONE
    max_timeout: int = 900_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer, and what the coordinator knows then.

    error: None if nobody is answered. producer_id, epoch: what the producer goes on with.
    completing: what is to be written once all markers are, when there are markers to send.
    """

    error: Error | None
    metadata: Metadata | None
    producer_id: int = NO_ID
    epoch: int = NO_EPOCH
    completing: Transit | None = None


def init_producer_id(
    known: Metadata | None, around: Around, *, timeout: int, expected: tuple[int, int] | None
) -> Answered:
    """Answer InitProducerId (`handleInitProducerId`, KIP-98, KIP-360).

    expected: id and epoch of a producer that goes on, None of a new one.
    """
    if not 0 < timeout <= around.max_timeout:
        return Answered(error=Error.INVALID_TRANSACTION_TIMEOUT, metadata=known)
    if known is None:
        if around.new_id is None:
            return Answered(error=Error.COORDINATOR_LOAD_IN_PROGRESS, metadata=None)
        known = Metadata(producer_id=around.new_id, timeout=timeout, updated=around.now)
    change, known = _prepared_init(known, around, timeout=timeout, expected=expected)
    if isinstance(change, Error):
        return Answered(error=change, metadata=known)
    if change.state is TransactionState.PREPARE_EPOCH_FENCE:
        ended = _abort_fenced(known, around, change)
        again = Error.CONCURRENT_TRANSACTIONS if ended.error is Error.NONE else ended.error
        return replace(ended, error=again, producer_id=NO_ID, epoch=NO_EPOCH)
    error, after = _appended(known, change, around)
    written = error is Error.NONE
    return Answered(
        error=error,
        metadata=after,
        producer_id=change.producer_id if written else NO_ID,
        epoch=change.epoch if written else NO_EPOCH,
    )


def _prepared_init(
    known: Metadata, around: Around, *, timeout: int, expected: tuple[int, int] | None
) -> Prepared:
    """Prepare a new epoch, or to abort what is open before (`prepareInitProducerIdTransit`)."""
    refusal = _init_refusal(known, expected)
    if refusal is not None:
        return refusal, known
    if known.state is TransactionState.ONGOING:
        return rule.fence(known, around.rules)
    epoch = None if expected is None else expected[1]
    if known.exhausted and epoch in (None, known.epoch):
        if around.new_id is None:
            return Error.COORDINATOR_LOAD_IN_PROGRESS, known
        return rule.rotate_id(
            known,
            around.rules,
            producer_id=around.new_id,
            timeout=timeout,
            at=around.now,
            record_last=epoch is not None,
        )
    change, after = rule.increment_epoch(
        known, around.rules, timeout=timeout, expected=epoch, at=around.now
    )
    thrown = change in (Error.ILLEGAL_STATE, Error.ILLEGAL_ARGUMENT)
    if thrown and around.rules.hides_errors:
        return Error.UNKNOWN_SERVER_ERROR, after
    return change, after


def _init_refusal(known: Metadata, expected: tuple[int, int] | None) -> Error | None:
    """Return why a producer may not begin, or not yet."""
    if known.pending is not None:
        return Error.CONCURRENT_TRANSACTIONS
    if expected is not None and not _may_go_on(known, *expected):
        return Error.PRODUCER_FENCED
    match known.state:
        case TransactionState.PREPARE_COMMIT | TransactionState.PREPARE_ABORT:
            return Error.CONCURRENT_TRANSACTIONS
        case TransactionState.DEAD | TransactionState.PREPARE_EPOCH_FENCE:
            return Error.ILLEGAL_STATE
    return None


def _may_go_on(known: Metadata, producer_id: int, epoch: int) -> bool:
    """Whether a producer that goes on is ours, or was until its epochs ran out."""
    rotated = producer_id == known.prev_id and rule.exhausted(epoch)
    return known.epoch == NO_EPOCH or producer_id == known.producer_id or rotated


def verify_partitions(
    known: Metadata | None, *, producer_id: int, epoch: int, partitions: Set[int]
) -> dict[int, Error]:
    """Answer whether partitions are in the transaction (`handleVerifyPartitionsInTransaction`).

    KIP-890 part 1; with TRANSACTION_ABORTABLE since 3.8.
    """
    error = _stranger(known, producer_id, epoch)
    if known is None or error is not Error.NONE:
        return dict.fromkeys(partitions, error)
    return {
        partition: Error.NONE if partition in known.partitions else Error.TRANSACTION_ABORTABLE
        for partition in partitions
    }


def add_partitions(
    known: Metadata | None,
    around: Around,
    *,
    producer_id: int,
    epoch: int,
    partitions: Set[int],
    version: int,
) -> Answered:
    """Answer AddPartitionsToTxn (`handleAddPartitionsToTransaction`)."""
    error = _stranger(known, producer_id, epoch)
    if known is None:
        return Answered(error=error, metadata=None)
    fenced = error not in (Error.NONE, Error.CONCURRENT_TRANSACTIONS)
    if known.pending is not None and (around.rules.pending_first or not fenced):
        error = Error.CONCURRENT_TRANSACTIONS
    if error is not Error.NONE:
        return Answered(error=error, metadata=known)
    if known.state is TransactionState.ONGOING and partitions <= known.partitions:
        return Answered(error=error, metadata=known)
    change, known = rule.add_partitions(
        known, around.rules, partitions, at=around.now, version=version
    )
    if isinstance(change, Error):
        return Answered(error=change, metadata=known)
    error, after = _appended(known, change, around)
    return Answered(error=error, metadata=after)


def _stranger(known: Metadata | None, producer_id: int, epoch: int) -> Error:
    """Return why a producer has no say in the transaction, or why it has to wait."""
    if known is None or known.producer_id != producer_id:
        return Error.INVALID_PRODUCER_ID_MAPPING
    if known.epoch != epoch:
        return Error.PRODUCER_FENCED
    if known.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
        return Error.CONCURRENT_TRANSACTIONS
    return Error.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxn:
    """A request to commit or to abort; the coordinator makes one itself to abort by a fence.

    version: of transactions, as its sender speaks it.
    """

    producer_id: int
    epoch: int
    commit: bool
    version: int
    from_client: bool = True

    @property
    def outcome(self) -> TransactionState:
        """The state it asks for."""
        return TransactionState.PREPARE_COMMIT if self.commit else TransactionState.PREPARE_ABORT


def abort_timed_out(known: Metadata | None, around: Around, *, producer_id: int) -> Answered:
    """Abort a transaction that takes too long (`abortTimedOutTransactions`)."""
    if known is None or known.producer_id != producer_id or known.pending is not None:
        return Answered(error=None, metadata=known)
    change, known = rule.fence(known, around.rules)
    if isinstance(change, Error):
        return Answered(error=change, metadata=known)
    return _abort_fenced(known, around, change)


def _abort_fenced(known: Metadata, around: Around, fence: Transit) -> Answered:
    request = EndTxn(
        producer_id=fence.producer_id,
        epoch=fence.epoch,
        commit=False,
        version=around.version,
        from_client=False,
    )
    return end_transaction(known, around, request)


def end_transaction(known: Metadata | None, around: Around, request: EndTxn) -> Answered:
    """Answer EndTxn (`endTransaction`, and `endTransactionWithTV1` without an epoch for each)."""
    if known is None:
        return Answered(error=Error.INVALID_PRODUCER_ID_MAPPING, metadata=None)
    bumps = rule.bumps(request.version)
    change, after = (_end_v2 if bumps else _end_v1)(known, around, request)
    if not isinstance(change, Error):
        fences = known.pending is not None
        return _ended(after, around, change, fences=fences)
    # With transactions v2, a retry is told the epoch that its first request led to.
    told = change is Error.NONE and bumps
    return Answered(
        error=change,
        metadata=after,
        producer_id=known.producer_id if told else NO_ID,
        epoch=known.epoch if told else NO_EPOCH,
    )


def _ended(known: Metadata, around: Around, change: Transit, *, fences: bool) -> Answered:
    """Write a transaction's outcome, then prepare what follows its markers."""
    bumps = rule.bumps(change.version)
    error, after = _appended(known, change, around)
    if error is not Error.NONE:
        failed = fences and (around.rules.double_bump or not bumps)
        marked = replace(after, failed_fence=after.failed_fence or failed)
        return Answered(error=error, metadata=marked)
    completing, after = rule.complete(after, around.rules, at=around.now)
    if isinstance(completing, Error):
        return Answered(error=completing, metadata=after)
    return Answered(
        error=error,
        metadata=after,
        producer_id=completing.producer_id if bumps else NO_ID,
        epoch=completing.epoch if bumps else NO_EPOCH,
        completing=completing,
    )


def _end_v1(known: Metadata, around: Around, request: EndTxn) -> Prepared:
    """Prepare to end a transaction, told apart by its state alone (KIP-98)."""
    if known.producer_id != request.producer_id:
        return Error.INVALID_PRODUCER_ID_MAPPING, known
    if not _fenced_or_same(known, request):
        return Error.PRODUCER_FENCED, known
    if known.pending not in (None, TransactionState.PREPARE_EPOCH_FENCE):
        return Error.CONCURRENT_TRANSACTIONS, known
    if known.state is not TransactionState.ONGOING:
        return _again(known, request), known
    if known.pending is not None and not request.commit:
        known = replace(known, pending=None, epoch=request.epoch, last_epoch=NO_EPOCH)
    return rule.end(
        known,
        around.rules,
        state=request.outcome,
        version=0,
        next_id=NO_ID,
        at=around.now,
        nothing_added=False,
    )


def _end_v2(known: Metadata, around: Around, request: EndTxn) -> Prepared:
    """Prepare to end a transaction that has an epoch of its own (KIP-890 part 2)."""
    refusal = _refusal_v2(known, request)
    if refusal is not None:
        return refusal, known
    fences = known.pending is not None
    next_id: int | None = NO_ID
    if known.exhausted and (not fences or around.rules.last_epoch_ends):
        next_id = around.new_id
    if not request.commit:
        known = replace(known, pending=None)  # the fence, if there is one
        if fences and around.rules.double_bump:
            known = replace(known, epoch=request.epoch, last_epoch=NO_EPOCH)
    if next_id is None:
        return Error.COORDINATOR_LOAD_IN_PROGRESS, known
    return rule.end(
        known,
        around.rules,
        state=request.outcome,
        version=request.version,
        next_id=next_id,
        at=around.now,
        nothing_added=known.state is not TransactionState.ONGOING,
    )


def _refusal_v2(known: Metadata, request: EndTxn) -> Error | None:
    """Return the answer where nothing is prepared: an error, or that of a retry."""
    fences = known.pending is TransactionState.PREPARE_EPOCH_FENCE
    if known.pending is not None and not fences:
        return Error.CONCURRENT_TRANSACTIONS
    bumped = not fences and known.epoch == request.epoch + 1
    rotated = (
        not fences
        and known.epoch == 0
        and request.epoch == LAST_EPOCH - 1
        and request.producer_id == known.prev_id
    )
    if known.producer_id != request.producer_id and not rotated:
        return Error.INVALID_PRODUCER_ID_MAPPING
    prepared = known.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
    complete = known.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    again = (bumped and (prepared or complete)) or (rotated and complete)
    same = _fenced_or_same(known, request) and (fences or not prepared)
    if not again and not same:
        return Error.PRODUCER_FENCED
    if known.state is TransactionState.ONGOING:
        return None
    if complete and request.commit and not again:
        return Error.INVALID_TXN_STATE
    begins = complete or known.state is TransactionState.EMPTY
    return None if begins and not again and not request.commit else _again(known, request)


def _fenced_or_same(known: Metadata, request: EndTxn) -> bool:
    """Whether a request has the epoch of the transaction; one of a fence may have a higher one."""
    if request.from_client:
        return request.epoch == known.epoch
    return request.epoch >= known.epoch


def _again(known: Metadata, request: EndTxn) -> Error:
    """Return the answer about a transaction that is not open: the request may be a retry."""
    match known.state:
        case TransactionState.DEAD | TransactionState.PREPARE_EPOCH_FENCE:
            return Error.ILLEGAL_STATE
        case TransactionState.PREPARE_COMMIT | TransactionState.PREPARE_ABORT:
            same = known.state is request.outcome
            return Error.CONCURRENT_TRANSACTIONS if same else Error.INVALID_TXN_STATE
        case TransactionState.EMPTY:
            return Error.INVALID_TXN_STATE
    committed = known.state is TransactionState.COMPLETE_COMMIT
    return Error.NONE if committed is request.commit else Error.INVALID_TXN_STATE


def _appended(known: Metadata, change: Transit, around: Around) -> tuple[Error, Metadata]:
    """Write a change to the transaction log (`appendTransactionToLog`)."""
    if around.log is not Error.NONE:
        return around.log, replace(known, pending=None)
    after = rule.completed(known, change, around.rules)
    if isinstance(after, Error):
        return after, known
    return Error.NONE, after
