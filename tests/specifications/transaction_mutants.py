"""Each guard of transactions is removed: an anomaly must become possible, or its trace shorter."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial

from ackproof_model.kafka.producer_state import Batch, ProducerState, Refusal
from ackproof_model.transactions import coordinator, log, producers, successors, transaction_log
from ackproof_model.transactions.coordinator import Answer, Answered
from ackproof_model.transactions.markers import Way
from ackproof_model.transactions.model import (
    Protocol,
    TransactionBudgets,
    TransactionModel,
)
from ackproof_model.transactions.state import PREPARED, Coordinator, Entry, Partition, Txn
from specifications.mutation_score import Mutant
from specifications.wrong_rules import always, never, with_wrong

_INIT, _MARKED = coordinator.init_producer_id, log.marked
_REFUSAL, _END = ProducerState.refusal, ProducerState.end_transaction


def _same_epoch(model: TransactionModel, before: Coordinator, expected: int | None) -> Answered:
    answer, after = _INIT(model, before, expected)
    new = answer is Answer.NONE and expected is None
    return answer, after._replace(epoch=before.epoch) if new else after


def _init_beside(model: TransactionModel, before: Coordinator, expected: int | None) -> Answered:
    if before.state is not Txn.ONGOING:
        return _INIT(model, before, expected)
    if expected is not None and expected != before.epoch:
        return Answer.PRODUCER_FENCED, before
    return Answer.NONE, before._replace(epoch=before.epoch + 1)


def _any_epoch(self: ProducerState, epoch: int, *, strict: bool) -> ProducerState | Refusal:
    after = _END(self, epoch, strict=strict)
    return ProducerState(epoch=epoch) if epoch < self.epoch else after


def _accepting(accepted: Refusal) -> object:
    def refusal(self: ProducerState, batch: Batch, **given: object) -> Refusal | None:
        refused = _REFUSAL(self, batch, **given)
        return None if refused is accepted else refused

    return refusal


def _marked_once(model: TransactionModel, there: Partition, marker: Entry) -> Partition | None:
    known = log.known(there.log)
    again = model.strict and marker.epoch == known.epoch and known.txn_start is None
    return None if again else _MARKED(model, there, marker)


def _without_prepared(whole: transaction_log.Log) -> tuple[transaction_log.Log, ...]:
    while whole[-1].state in PREPARED:
        whole = whole[:-1]
    return (whole,)


def _as_complete(whole: transaction_log.Log) -> tuple[transaction_log.Log, ...]:
    last = whole[-1]
    if last.state in PREPARED:
        whole = (*whole[:-1], last._replace(state=Txn(last.state + 2), partitions=0))
    return (whole,)


def last_stable_offset(entries: tuple[Entry, ...], high_watermark: int) -> int:
    """Return the last stable offset: the first open record, or the high watermark."""
    start = log.known(entries).txn_start
    return high_watermark if start is None else min(start, high_watermark)


def _beyond_stable(entries: tuple[Entry, ...]) -> frozenset[int]:
    rest = entries[last_stable_offset(entries, len(entries)) :]
    return log.committed(entries) | {one.transaction for one in rest if one.transaction >= 0}


#: By guard: the rules that have it, each with the one that a Kafka without the guard would have.
WRONG: dict[str, list[tuple[object, str, object]]] = {
    # A new producer of a transactional.id gets a new epoch (`prepareIncrementProducerEpoch`).
    "fencing": [
        (coordinator, "init_producer_id", _same_epoch),
        (
            coordinator,
            "fence",
            lambda model, before: coordinator._prepared(before, before.epoch, commit=False),
        ),
    ],
    # An open transaction is ended before a new producer begins (`prepareInitProducerIdTransit`).
    "abort_before_init": [(coordinator, "init_producer_id", _init_beside)],
    "coordinator_epoch_check": [
        (coordinator, "_is_current", always),
        (coordinator, "_valid", always),
    ],
    # A log refuses records and markers of an older epoch (`ProducerAppendInfo.checkProducerEpoch`).
    "log_epoch_check": [
        (ProducerState, "refusal", _accepting(Refusal.INVALID_PRODUCER_EPOCH)),
        (ProducerState, "end_transaction", _any_epoch),
    ],
    "term_check": [(log, "_term", lambda entries: 0)],
    # A batch that is in the log is not appended again (`ProducerStateEntry.findDuplicateBatch`).
    "dedup": [
        (ProducerState, "duplicate", lambda self, batch: None),
        (ProducerState, "refusal", _accepting(Refusal.OUT_OF_ORDER_SEQUENCE)),
    ],
    # The outcome is written to the transaction log before any marker.
    "prepare_first": [(transaction_log, "loaded", _without_prepared)],
    "replicated_first": [
        (transaction_log, "loaded", lambda whole: (whole, whole[:-1]) if whole[1:] else (whole,))
    ],
    "load_first": [
        (transaction_log, "loaded", lambda whole: (whole, *transaction_log.older(whole)))
    ],
    "markers_resent": [(transaction_log, "loaded", _as_complete)],
    "complete_first": [(coordinator, "_awaits_markers", never)],
    "stable_offset": [(log, "readable", _beyond_stable)],
    "aborted_index": [
        (log, "readable", lambda entries: log.committed(entries) | log.aborted(entries))
    ],
    "resolved_first": [
        (producers, "_awaits_responses", never),
        (producers, "_needs_epoch", never),
    ],
    "verification": [(TransactionModel, "verifies", False)],
    "verification_guard": [(log, "_guards", lambda guard, entries: guard != log.OPEN_ALREADY)],
    "open_epoch": [(TransactionModel, "compares_open", False)],
    "epoch_bump": [(TransactionModel, "bumps", False), (TransactionModel, "fence_bumps", 1)],
    "strict_marker": [(TransactionModel, "strict", False)],
    # Before 4.3 the marker of a partition without a leader waits.
    "marker_waits": [(successors, "way", lambda profile, leader: Way.SKIPPED)],
    # A marker may be repeated (KAFKA-19999, 4.2).
    "marker_retry": [(log, "marked", _marked_once)],
}


@contextlib.contextmanager
def _without(guard: str) -> Iterator[None]:
    """Remove a guard, and clear the caches of log states before and afterwards."""
    caches = (log.known, log.committed, log.aborted)
    for cached in caches:
        cached.cache_clear()
    with with_wrong(WRONG[guard]):
        yield
    for cached in caches:
        cached.cache_clear()


def _mutant(
    guard: str, anomaly: str, version: str = "3.9.1", protocol: Protocol = 1, **budgets: int
) -> Mutant:
    model = TransactionModel(
        kafka_version=version, protocol=protocol, budgets=TransactionBudgets(**budgets)
    )
    return Mutant(guard=guard, model=model, without=partial(_without, guard), anomaly=anomaly)


MUTANTS = (
    _mutant("fencing", "zombie-commit", restarts=1),
    _mutant("abort_before_init", "aborted-read", restarts=1),
    _mutant("coordinator_epoch_check", "aborted-read", "4.3.1", 2, delays=1),
    _mutant("log_epoch_check", "zombie-write", restarts=1),
    _mutant("term_check", "aborted-read", failovers=1),
    _mutant("dedup", "duplicated", "4.3.1", 2, delays=1),
    _mutant("prepare_first", "torn", failovers=1),
    _mutant("replicated_first", "aborted-read", failovers=1),
    _mutant("load_first", "hanging", failovers=1),
    _mutant("markers_resent", "lost", failovers=1),
    _mutant("complete_first", "aborted-read"),
    _mutant("stable_offset", "aborted-read"),
    _mutant("aborted_index", "aborted-read"),
    # The anomaly is possible with the guard, too, but its trace is longer.
    _mutant("resolved_first", "lost", delays=1),
    _mutant("verification", "hanging", delays=1),
    _mutant("verification_guard", "hanging", delays=1),
    _mutant("open_epoch", "aborted-read", "4.0.0", 2),
    _mutant("epoch_bump", "aborted-read", "4.3.1", 2),
    _mutant("strict_marker", "aborted-read", "4.3.1", 2, marker_delays=1),
    _mutant("marker_waits", "hanging", outages=1),
    _mutant("marker_retry", "stuck", "4.3.1", 2, marker_delays=1),
)
