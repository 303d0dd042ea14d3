"""The transactional producer: the client's side, following `TransactionManager` and `Sender`.

A request and its response are one step; a request in flight exists only as a delayed one
(`delays`).
"""

from __future__ import annotations

from collections.abc import Iterator

from ackproof_model.transactions import coordinator as rules
from ackproof_model.transactions.coordinator import Answer
from ackproof_model.transactions.log import NOT_YET
from ackproof_model.transactions.model import TransactionModel
from ackproof_model.transactions.requests import answered, with_outcome
from ackproof_model.transactions.state import (
    Fate,
    Message,
    Outcome,
    Phase,
    Producer,
    State,
    idle,
)

Step = tuple[str, State]


def steps(model: TransactionModel, state: State, number: int) -> Iterator[Step]:
    """Yield the steps of a producer, responses included."""
    producer = state.producers[number]
    if producer.phase in {Phase.STARTING, Phase.BUMPING}:
        yield from _initialise(model, state, number, producer)
    if producer.phase is Phase.OPEN and producer.sent:
        given_up = producer._replace(sent=0, doomed=True, gave_up=True)
        yield f"producer {number} gives up", _with(state, number, given_up)
    for label, began, request in requests(model, state, number):
        answer, after = answered(model, began, request)
        if answer is not Answer.CONCURRENT_TRANSACTIONS:
            yield label, _responded(model, after, number, request, answer)


def requests(
    model: TransactionModel, state: State, number: int
) -> Iterator[tuple[str, State, Message]]:
    """Yield the requests a producer may send, with the state in which it waits for the response."""
    producer = state.producers[number]
    match producer.phase:
        case Phase.IDLE:
            if len(state.outcomes) < model.budgets.transactions:
                began = state._replace(outcomes=(*state.outcomes, Outcome(Fate.OPEN, 0)))
                opened = producer._replace(phase=Phase.OPEN, transaction=len(state.outcomes))
                yield from _data(model, _with(began, number, opened), number)
        case Phase.OPEN:
            if not producer.doomed:
                yield from _data(model, state, number)
            yield from _ends(model, state, number)
        case Phase.COMMITTING | Phase.ABORTING:
            yield _end(state, number)


def _data(
    model: TransactionModel, state: State, number: int
) -> Iterator[tuple[str, State, Message]]:
    producer = state.producers[number]
    for at in range(model.budgets.partitions):
        bit = 1 << at
        if model.protocol == 1 and not producer.added & bit:
            request = Message("add", number, producer.epoch, producer.transaction, at)
            yield f"producer {number} adds partition {at}", state, request
        elif not producer.acked & bit:
            request = Message(
                "produce",
                number,
                producer.epoch,
                producer.transaction,
                at,
                producer.sequences[at],
                guard=NOT_YET,
            )
            sending = _with(state, number, producer._replace(sent=producer.sent | bit))
            yield f"producer {number} writes to partition {at}", sending, request


def _ends(
    model: TransactionModel, state: State, number: int
) -> Iterator[tuple[str, State, Message]]:
    """Yield commit and abort: every sent record must have had a response before."""
    producer = state.producers[number]
    if _awaits_responses(producer):
        return
    if producer.acked and not producer.doomed:
        requested = with_outcome(state, producer.transaction, fate=Fate.REQUESTED)
        yield _end(_with(requested, number, producer._replace(phase=Phase.COMMITTING)), number)
    yield _end(_with(state, number, producer._replace(phase=Phase.ABORTING)), number)


def _awaits_responses(producer: Producer) -> bool:
    """Whether a record has no response: then the transaction cannot be ended."""
    return bool(producer.sent)


def _needs_epoch(producer: Producer) -> bool:
    """Whether it requests a new epoch before its next transaction: a record failed (KIP-360)."""
    return producer.gave_up


def _end(state: State, number: int) -> tuple[str, State, Message]:
    producer = state.producers[number]
    commit = producer.phase is Phase.COMMITTING
    request = Message("end", number, producer.epoch, producer.transaction, commit=commit)
    return f"producer {number} {'commits' if commit else 'aborts'}", state, request


def _responded(
    model: TransactionModel, state: State, number: int, request: Message, answer: Answer
) -> State:
    """Return the state after a producer received a response."""
    producer = state.producers[number]
    refused = answer is not Answer.NONE
    match request.kind:
        case "produce":
            bit = 1 << request.partition
            producer = producer._replace(sent=producer.sent & ~bit)
            if refused:
                return _with(state, number, producer._replace(doomed=True))
            sequences = list(producer.sequences)
            sequences[request.partition] += 1
            acked = producer.acked | bit
            after = producer._replace(acked=acked, sequences=tuple(sequences))
            return _with(with_outcome(state, producer.transaction, acked=acked), number, after)
        case "add":
            after = producer._replace(added=producer.added | 1 << request.partition)
            return _with(state, number, _over(producer) if refused else after)
    if refused:
        return _with(state, number, _over(producer))
    if request.commit:
        state = with_outcome(state, producer.transaction, fate=Fate.COMMITTED)
    return _with(state, number, _ended(model, state, producer))


def _ended(model: TransactionModel, state: State, producer: Producer) -> Producer:
    """Return a producer after its transaction: with protocol 2, the response had the new epoch.

    With protocol 1 it requests a new epoch if one of its records failed (KIP-360).
    """
    if model.bumps:
        return idle(model, state.coordinator.epoch)
    after = idle(model, producer.epoch)._replace(sequences=producer.sequences)
    if _needs_epoch(producer):
        return after._replace(phase=Phase.BUMPING)
    return after


def _initialise(
    model: TransactionModel, state: State, number: int, producer: Producer
) -> Iterator[Step]:
    expected = producer.epoch if producer.phase is Phase.BUMPING else None
    answer, coordinator = rules.init_producer_id(model, state.coordinator, expected)
    after = state._replace(coordinator=coordinator)
    label = f"producer {number} asks for an epoch"
    if answer is Answer.NONE:
        yield label, _with(after, number, idle(model, coordinator.epoch))
    elif answer is Answer.CONCURRENT_TRANSACTIONS:
        if coordinator != state.coordinator:
            yield label, after
    else:
        yield label, _with(after, number, _over(producer))


def _over(producer: Producer) -> Producer:
    return Producer(
        Phase.OVER, producer.epoch, producer.transaction, 0, 0, 0, (0,) * len(producer.sequences)
    )


def _with(state: State, number: int, producer: Producer) -> State:
    before = state.producers
    return state._replace(producers=(*before[:number], producer, *before[number + 1 :]))
