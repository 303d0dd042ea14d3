"""All steps of a transactional.id: producers, markers, delayed requests, perturbations."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof_model.transactions import coordinator as rules
from ackproof_model.transactions import log
from ackproof_model.transactions.bounds import PERTURBATIONS, TransactionModel
from ackproof_model.transactions.coordinator import Answer
from ackproof_model.transactions.producers import requests, steps
from ackproof_model.transactions.requests import (
    answered,
    marker,
    markers,
    verify,
    with_partition,
)
from ackproof_model.transactions.state import (
    PREPARED,
    Message,
    Phase,
    Producer,
    State,
    Txn,
)

Step = tuple[str, State]


def successors(model: TransactionModel, state: State) -> Iterator[Step]:
    """Yield every step from a state, as (name, state after it)."""
    for number in range(len(state.producers)):
        yield from steps(model, state, number)
    for request in markers(state.coordinator):
        yield from _write_marker(model, state, request)
    for late in state.flight:
        arrived = state._replace(flight=state.flight - {late})
        answer, after = answered(model, arrived, late)
        if answer is not Answer.CONCURRENT_TRANSACTIONS:
            yield f"the late {_name(late)} arrives", after
    left = dict(zip(PERTURBATIONS, state.left, strict=True))
    if left["delays"]:
        yield from _delays(model, state)
    if left["marker_delays"]:
        for request in markers(state.coordinator):
            held = state._replace(flight=state.flight | {request})
            yield f"a {_name(request)} is late", _spent(held, "marker_delays")
    if left["restarts"]:
        sequences = (0,) * model.budgets.partitions
        new = Producer(Phase.STARTING, -1, -1, 0, 0, 0, sequences)
        started = state._replace(producers=(*state.producers, new))
        yield f"producer {len(state.producers)} begins", _spent(started, "restarts")
    if left["timeouts"] and state.coordinator.state is Txn.ONGOING:
        timed_out = state._replace(coordinator=rules.fence(model, state.coordinator))
        yield "the transaction times out", _spent(timed_out, "timeouts")
    if left["failovers"]:
        yield from _failovers(model, state)
    ended = state.coordinator.state not in {*PREPARED, Txn.ONGOING, Txn.DEAD}
    if left["expirations"] and ended:
        dead = state.coordinator._replace(state=Txn.DEAD)
        yield (
            "the transactional.id expires",
            _spent(state._replace(coordinator=dead), "expirations"),
        )


def _write_marker(model: TransactionModel, state: State, request: Message) -> Iterator[Step]:
    """Yield that the coordinator writes a marker (`TransactionMarkerChannelManager`)."""
    at, coordinator = request.partition, state.coordinator
    after = log.marked(model, state.partitions[at], marker(request))
    if after is not None:
        rest = coordinator._replace(partitions=coordinator.partitions & ~(1 << at))
        yield (
            f"a {_name(request)} is written",
            with_partition(state, at, after)._replace(coordinator=rules.completed(rest)),
        )


def _delays(model: TransactionModel, state: State) -> Iterator[Step]:
    """Yield delayed requests: in flight, or verified and waiting for the append."""
    for number in range(len(state.producers)):
        for label, waiting, request in requests(model, state, number):
            held = waiting._replace(flight=waiting.flight | {request})
            yield f"{label}: late", _spent(held, "delays")
            if request.kind != "produce" or not model.verifies:
                continue
            answer, after, guard = verify(model, waiting, request)
            if answer is Answer.NONE:
                held = after._replace(flight=after.flight | {request._replace(guard=guard)})
                yield f"{label}: verified, late", _spent(held, "delays")


def _failovers(model: TransactionModel, state: State) -> Iterator[Step]:
    """Yield failovers to another coordinator; a marker of the old one may be in flight."""
    after = state._replace(coordinator=rules.failed_over(model, state.coordinator))
    yield "the coordinator fails over", _spent(after, "failovers")
    for request in markers(state.coordinator):
        held = after._replace(flight=after.flight | {request})
        yield f"the coordinator fails over, a {_name(request)} is late", _spent(held, "failovers")


def _spent(state: State, kind: str) -> State:
    spent = PERTURBATIONS.index(kind)
    left = tuple(budget - (spent == n) for n, budget in enumerate(state.left))
    return state._replace(left=left)


def _name(request: Message) -> str:
    match request.kind:
        case "marker":
            what = "commit" if request.commit else "abort"
            return f"{what} marker of partition {request.partition}"
        case "end":
            return f"{'commit' if request.commit else 'abort'} of producer {request.producer}"
        case "add":
            return f"partition {request.partition} of producer {request.producer}"
    return f"record of producer {request.producer} to partition {request.partition}"
