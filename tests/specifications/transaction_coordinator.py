"""The transaction coordinator: its response to each request, and its metadata afterwards.

The rules are those of `kafka.coordinator.transaction.TransactionCoordinator` for one
transactional.id, whose metadata are those of `transaction_metadata` (None: unknown id). A write to
the transaction log is one step here: it succeeds or fails (`appendTransactionToLog`).

Left out: two-phase commit (KIP-939), and a coordinator that loses its partition during a request.
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
class Environment:
    """Everything besides the metadata that a response depends on.

    now: milliseconds. version: the cluster's `transaction.version`. new_id: the next free producer
    id, None if none is available now. log: the result of a write to the transaction log.
    max_timeout: `transaction.max.timeout.ms`.
    """

    rules: CoordinatorRules
    now: int
    version: int
    new_id: int | None
    log: Error = Error.NONE
    max_timeout: int = 900_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response, and the metadata afterwards.

    error: None if no response is sent. producer_id, epoch: what the producer continues with.
    completing: the change to write once all markers are written; None if there are no markers.
    """

    error: Error | None
    metadata: Metadata | None
    producer_id: int = NO_ID
    epoch: int = NO_EPOCH
    completing: Transit | None = None


def init_producer_id(
    known: Metadata | None,
    env: Environment,
    *,
    timeout: int,
    expected: tuple[int, int] | None,
) -> Response:
    """Answer InitProducerId (`handleInitProducerId`, KIP-98, KIP-360).

    expected: id and epoch of a producer that continues; None for a new one.
    """
    if not 0 < timeout <= env.max_timeout:
        return Response(error=Error.INVALID_TRANSACTION_TIMEOUT, metadata=known)
    if known is None:
        if env.new_id is None:
            return Response(error=Error.COORDINATOR_LOAD_IN_PROGRESS, metadata=None)
        known = Metadata(producer_id=env.new_id, timeout=timeout, updated=env.now)
    change, known = _prepared_init(known, env, timeout=timeout, expected=expected)
    if isinstance(change, Error):
        return Response(error=change, metadata=known)
    if change.state is TransactionState.PREPARE_EPOCH_FENCE:
        ended = _abort_fenced(known, env, change)
        again = Error.CONCURRENT_TRANSACTIONS if ended.error is Error.NONE else ended.error
        return replace(ended, error=again, producer_id=NO_ID, epoch=NO_EPOCH)
    error, after = _appended(known, change, env)
    written = error is Error.NONE
    return Response(
        error=error,
        metadata=after,
        producer_id=change.producer_id if written else NO_ID,
        epoch=change.epoch if written else NO_EPOCH,
    )


def _prepared_init(
    known: Metadata, env: Environment, *, timeout: int, expected: tuple[int, int] | None
) -> Prepared:
    """Prepare a new epoch, or abort the open transaction (`prepareInitProducerIdTransit`)."""
    refusal = _init_refusal(known, expected)
    if refusal is not None:
        return refusal, known
    if known.state is TransactionState.ONGOING:
        return rule.fence(known, env.rules)
    epoch = None if expected is None else expected[1]
    if known.exhausted and epoch in (None, known.epoch):
        if env.new_id is None:
            return Error.COORDINATOR_LOAD_IN_PROGRESS, known
        return rule.rotate_id(
            known,
            env.rules,
            producer_id=env.new_id,
            timeout=timeout,
            at=env.now,
            record_last=epoch is not None,
        )
    change, after = rule.increment_epoch(
        known, env.rules, timeout=timeout, expected=epoch, at=env.now
    )
    thrown = change in (Error.ILLEGAL_STATE, Error.ILLEGAL_ARGUMENT)
    if thrown and env.rules.hides_errors:
        return Error.UNKNOWN_SERVER_ERROR, after
    return change, after


def _init_refusal(known: Metadata, expected: tuple[int, int] | None) -> Error | None:
    """Return the error for a producer that may not start now; None if it may."""
    if known.pending is not None:
        return Error.CONCURRENT_TRANSACTIONS
    if expected is not None and not _continues(known, *expected):
        return Error.PRODUCER_FENCED
    match known.state:
        case TransactionState.PREPARE_COMMIT | TransactionState.PREPARE_ABORT:
            return Error.CONCURRENT_TRANSACTIONS
        case TransactionState.DEAD | TransactionState.PREPARE_EPOCH_FENCE:
            return Error.ILLEGAL_STATE
    return None


def _continues(known: Metadata, producer_id: int, epoch: int) -> bool:
    """Whether id and epoch are the current ones, or those before the epochs were exhausted."""
    rotated = producer_id == known.prev_id and rule.exhausted(epoch)
    return known.epoch == NO_EPOCH or producer_id == known.producer_id or rotated


def verify_partitions(
    known: Metadata | None, *, producer_id: int, epoch: int, partitions: Set[int]
) -> dict[int, Error]:
    """Answer whether partitions are in the transaction (`handleVerifyPartitionsInTransaction`).

    KIP-890 part 1; with TRANSACTION_ABORTABLE since 3.8.
    """
    error = _producer_error(known, producer_id, epoch)
    if known is None or error is not Error.NONE:
        return dict.fromkeys(partitions, error)
    return {
        partition: Error.NONE if partition in known.partitions else Error.TRANSACTION_ABORTABLE
        for partition in partitions
    }


def add_partitions(
    known: Metadata | None,
    env: Environment,
    *,
    producer_id: int,
    epoch: int,
    partitions: Set[int],
    version: int,
) -> Response:
    """Answer AddPartitionsToTxn (`handleAddPartitionsToTransaction`)."""
    error = _producer_error(known, producer_id, epoch)
    if known is None:
        return Response(error=error, metadata=None)
    fenced = error not in (Error.NONE, Error.CONCURRENT_TRANSACTIONS)
    if known.pending is not None and (env.rules.pending_first or not fenced):
        error = Error.CONCURRENT_TRANSACTIONS
    if error is not Error.NONE:
        return Response(error=error, metadata=known)
    if known.state is TransactionState.ONGOING and partitions <= known.partitions:
        return Response(error=error, metadata=known)
    change, known = rule.add_partitions(known, env.rules, partitions, at=env.now, version=version)
    if isinstance(change, Error):
        return Response(error=change, metadata=known)
    error, after = _appended(known, change, env)
    return Response(error=error, metadata=after)


def _producer_error(known: Metadata | None, producer_id: int, epoch: int) -> Error:
    """Return the error for a producer that may not change the transaction now."""
    if known is None or known.producer_id != producer_id:
        return Error.INVALID_PRODUCER_ID_MAPPING
    if known.epoch != epoch:
        return Error.PRODUCER_FENCED
    if known.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
        return Error.CONCURRENT_TRANSACTIONS
    return Error.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxn:
    """A request to commit or abort; the coordinator creates one itself to abort after a fence.

    version: the `transaction.version` that its sender uses.
    """

    producer_id: int
    epoch: int
    commit: bool
    version: int
    from_client: bool = True

    @property
    def outcome(self) -> TransactionState:
        """The requested state."""
        return TransactionState.PREPARE_COMMIT if self.commit else TransactionState.PREPARE_ABORT


def abort_timed_out(known: Metadata | None, env: Environment, *, producer_id: int) -> Response:
    """Abort a transaction that exceeded its timeout (`abortTimedOutTransactions`)."""
    if known is None or known.producer_id != producer_id or known.pending is not None:
        return Response(error=None, metadata=known)
    change, known = rule.fence(known, env.rules)
    if isinstance(change, Error):
        return Response(error=change, metadata=known)
    return _abort_fenced(known, env, change)


def _abort_fenced(known: Metadata, env: Environment, fence: Transit) -> Response:
    request = EndTxn(
        producer_id=fence.producer_id,
        epoch=fence.epoch,
        commit=False,
        version=env.version,
        from_client=False,
    )
    return end_transaction(known, env, request)


def end_transaction(known: Metadata | None, env: Environment, request: EndTxn) -> Response:
    """Answer EndTxn (`endTransaction`, before KIP-890 `endTransactionWithTV1`)."""
    if known is None:
        return Response(error=Error.INVALID_PRODUCER_ID_MAPPING, metadata=None)
    bumps = rule.bumps(request.version)
    change, after = (_end_v2 if bumps else _end_v1)(known, env, request)
    if not isinstance(change, Error):
        fences = known.pending is not None
        return _ended(after, env, change, fences=fences)
    # With transactions v2, the response to a retry has the epoch that its first request led to.
    retried = change is Error.NONE and bumps
    return Response(
        error=change,
        metadata=after,
        producer_id=known.producer_id if retried else NO_ID,
        epoch=known.epoch if retried else NO_EPOCH,
    )


def _ended(known: Metadata, env: Environment, change: Transit, *, fences: bool) -> Response:
    """Write a transaction's outcome, then prepare the change that follows its markers."""
    bumps = rule.bumps(change.version)
    error, after = _appended(known, change, env)
    if error is not Error.NONE:
        failed = fences and (env.rules.double_bump or not bumps)
        marked = replace(after, failed_fence=after.failed_fence or failed)
        return Response(error=error, metadata=marked)
    completing, after = rule.complete(after, env.rules, at=env.now)
    if isinstance(completing, Error):
        return Response(error=completing, metadata=after)
    return Response(
        error=error,
        metadata=after,
        producer_id=completing.producer_id if bumps else NO_ID,
        epoch=completing.epoch if bumps else NO_EPOCH,
        completing=completing,
    )


def _end_v1(known: Metadata, env: Environment, request: EndTxn) -> Prepared:
    """Prepare to end a transaction that only its state identifies (KIP-98)."""
    if known.producer_id != request.producer_id:
        return Error.INVALID_PRODUCER_ID_MAPPING, known
    if not _fenced_or_same(known, request):
        return Error.PRODUCER_FENCED, known
    if known.pending not in (None, TransactionState.PREPARE_EPOCH_FENCE):
        return Error.CONCURRENT_TRANSACTIONS, known
    if known.state is not TransactionState.ONGOING:
        return _retry_error(known, request), known
    if known.pending is not None and not request.commit:
        known = replace(known, pending=None, epoch=request.epoch, last_epoch=NO_EPOCH)
    return rule.end(
        known,
        env.rules,
        state=request.outcome,
        version=0,
        next_id=NO_ID,
        at=env.now,
        nothing_added=False,
    )


def _end_v2(known: Metadata, env: Environment, request: EndTxn) -> Prepared:
    """Prepare to end a transaction that has an epoch of its own (KIP-890 part 2)."""
    refusal = _refusal_v2(known, request)
    if refusal is not None:
        return refusal, known
    fences = known.pending is not None
    next_id: int | None = NO_ID
    if known.exhausted and (not fences or env.rules.last_epoch_ends):
        next_id = env.new_id
    if not request.commit:
        known = replace(known, pending=None)  # the fence, if there is one
        if fences and env.rules.double_bump:
            known = replace(known, epoch=request.epoch, last_epoch=NO_EPOCH)
    if next_id is None:
        return Error.COORDINATOR_LOAD_IN_PROGRESS, known
    return rule.end(
        known,
        env.rules,
        state=request.outcome,
        version=request.version,
        next_id=next_id,
        at=env.now,
        nothing_added=known.state is not TransactionState.ONGOING,
    )


def _refusal_v2(known: Metadata, request: EndTxn) -> Error | None:
    """Return the result if nothing is to be prepared: an error, or the result of a retry."""
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
    return None if begins and not again and not request.commit else _retry_error(known, request)


def _fenced_or_same(known: Metadata, request: EndTxn) -> bool:
    """Whether a request has the epoch of the transaction; after a fence it may be higher."""
    if request.from_client:
        return request.epoch == known.epoch
    return request.epoch >= known.epoch


def _retry_error(known: Metadata, request: EndTxn) -> Error:
    """Return the result for a transaction that is not open: the request may be a retry."""
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


def _appended(known: Metadata, change: Transit, env: Environment) -> tuple[Error, Metadata]:
    """Write a change to the transaction log (`appendTransactionToLog`)."""
    if env.log is not Error.NONE:
        return env.log, replace(known, pending=None)
    after = rule.completed(known, change, env.rules)
    if isinstance(after, Error):
        return after, known
    return Error.NONE, after
