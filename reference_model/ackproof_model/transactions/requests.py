"""The effect of a producer's request or a marker at its destination."""

from __future__ import annotations

from ackproof_model.transactions import coordinator as rules
from ackproof_model.transactions import log
from ackproof_model.transactions.coordinator import Answer
from ackproof_model.transactions.markers import marker
from ackproof_model.transactions.model import TransactionModel
from ackproof_model.transactions.state import (
    Entry,
    Fate,
    Message,
    Partition,
    State,
    Txn,
)

Answered = tuple[Answer, State]


def answered(model: TransactionModel, state: State, request: Message) -> Answered:
    """Return the answer to a request, and the state after it."""
    match request.kind:
        case "add":
            answer, after = rules.add_partitions(
                model, state.coordinator, request.epoch, request.partition
            )
            return answer, state._replace(coordinator=after)
        case "end":
            return _ended(model, state, request)
        case "produce":
            return _produced(model, state, request)
    return _marked(model, state, request)


def _ended(model: TransactionModel, state: State, request: Message) -> Answered:
    before = state.coordinator
    answer, after = rules.end_txn(model, before, request.epoch, commit=request.commit)
    commits = before.state is Txn.ONGOING and request.commit and answer is Answer.NONE
    if commits and request.producer < state.newest:
        state = with_outcome(state, request.transaction, fate=Fate.ZOMBIE)
    return answer, state._replace(coordinator=after)


def verify(model: TransactionModel, state: State, request: Message) -> tuple[Answer, State, int]:
    """Return the coordinator's answer to a log's verification, and the guard of the append.

    Protocol 1 asks whether the partition is in the transaction, 2 adds it (KIP-890).
    """
    if not model.verifies:
        return Answer.NONE, state, log.NOT_YET
    at = request.partition
    partition, guard = log.verified(model, state.partitions[at], request.epoch, request.sequence)
    state = with_partition(state, at, partition)
    if guard == log.OPEN_ALREADY:
        return Answer.NONE, state, guard
    if model.protocol == 1:
        return rules.verify(state.coordinator, request.epoch, at), state, guard
    answer, after = rules.add_partitions(model, state.coordinator, request.epoch, at)
    return answer, state._replace(coordinator=after), guard


def _produced(model: TransactionModel, state: State, request: Message) -> Answered:
    guard = request.guard
    if guard == log.NOT_YET:
        answer, state, guard = verify(model, state, request)
        if answer is not Answer.NONE:
            return answer, state
    record = Entry(
        request.transaction,
        request.epoch,
        request.sequence,
        zombie=request.producer < state.newest,
    )
    after = log.appended(model, state.partitions[request.partition], record, guard)
    if after is None:
        return Answer.INVALID_TXN_STATE, state
    return Answer.NONE, with_partition(state, request.partition, after)


def _marked(model: TransactionModel, state: State, request: Message) -> Answered:
    """Write a delayed marker: its coordinator has sent it again meanwhile."""
    after = log.marked(model, state.partitions[request.partition], marker(request))
    if after is None:
        return Answer.PRODUCER_FENCED, state
    return Answer.NONE, with_partition(state, request.partition, after)


def with_partition(state: State, at: int, partition: Partition) -> State:
    before = state.partitions
    return state._replace(partitions=(*before[:at], partition, *before[at + 1 :]))


def with_outcome(state: State, transaction: int, **changed: int) -> State:
    """Return the state with a changed outcome of a transaction; the fate ZOMBIE stays."""
    outcome = state.outcomes[transaction]
    if outcome.fate is Fate.ZOMBIE:
        changed.pop("fate", None)
    outcomes = list(state.outcomes)
    outcomes[transaction] = outcome._replace(**changed)  # type: ignore[arg-type]
    return state._replace(outcomes=tuple(outcomes))
