"""All steps of a transactional.id: producers, markers, delayed requests, perturbations."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof_model.transactions import coordinator as rules
from ackproof_model.transactions import log, transaction_log
from ackproof_model.transactions.coordinator import Answer
from ackproof_model.transactions.markers import Leader, Way, marker, markers, way
from ackproof_model.transactions.model import TransactionBudgets, TransactionModel
from ackproof_model.transactions.producers import requests, steps
from ackproof_model.transactions.requests import (
    answered,
    verify,
    with_partition,
)
from ackproof_model.transactions.state import (
    PREPARED,
    Message,
    Partition,
    Phase,
    Producer,
    State,
    Txn,
)

Step = tuple[str, State]


def successors(model: TransactionModel, state: State) -> Iterator[Step]:
    """Yield every step from a state, as (name, state after it)."""
    for label, after in _steps(model, state):
        yield label, _with_log(state, after)


def _with_log(before: State, after: State) -> State:
    """Return the state with its transaction log, while a failover may need it."""
    left = dict(zip(TransactionBudgets.KINDS, after.left, strict=False))
    if not after.left[-1] or not (left["failovers"] or left["coordinator_losses"]):
        return after._replace(logged=())
    if after.coordinator is before.coordinator or after.coordinator.term > before.coordinator.term:
        return after
    return after._replace(logged=transaction_log.appended(after.logged, after.coordinator))


def _steps(model: TransactionModel, state: State) -> Iterator[Step]:
    for number in range(len(state.producers)):
        yield from steps(model, state, number)
    for request in markers(state.coordinator):
        yield from _write_marker(model, state, request)
    for late in state.flight:
        arrived = state._replace(flight=state.flight - {late})
        answer, after = answered(model, arrived, late)
        if answer is not Answer.CONCURRENT_TRANSACTIONS:
            yield f"the late {_name(late)} arrives", after
    if state.left[-1]:
        yield from _perturbations(model, state)


def _perturbations(model: TransactionModel, state: State) -> Iterator[Step]:
    left = dict(zip(TransactionBudgets.KINDS, state.left, strict=False))
    if left["delays"]:
        yield from _delays(model, state)
    if left["unanswered"]:
        yield from _unanswered(model, state)
    if left["marker_delays"]:
        for request in markers(state.coordinator):
            delayed = state._replace(flight=state.flight | {request})
            yield f"a {_name(request)} is late", _spent(delayed, "marker_delays")
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
    if left["coordinator_losses"]:
        yield from _coordinator_losses(state)
    if left["log_losses"]:
        yield from _log_losses(state)
    if left["outages"] and way(model.profile, Leader.NONE) is Way.SKIPPED:
        for request in markers(state.coordinator):
            skipped = _without_marker(state, request)
            yield f"a {_name(request)} is skipped", _spent(skipped, "outages")
    ended = state.coordinator.state not in {*PREPARED, Txn.ONGOING, Txn.DEAD}
    if left["expirations"] and ended:
        dead = state.coordinator._replace(state=Txn.DEAD)
        yield (
            "the transactional.id expires",
            _spent(state._replace(coordinator=dead), "expirations"),
        )


def _write_marker(model: TransactionModel, state: State, request: Message) -> Iterator[Step]:
    """Yield the write of a marker (`TransactionMarkerChannelManager`)."""
    after = log.marked(model, state.partitions[request.partition], marker(request))
    if after is not None:
        written = with_partition(state, request.partition, after)
        yield f"a {_name(request)} is written", _without_marker(written, request)


def _without_marker(state: State, request: Message) -> State:
    """Return the state in which the coordinator need not write this marker any more."""
    left = state.coordinator.partitions & ~(1 << request.partition)
    rest = state.coordinator._replace(partitions=left)
    return state._replace(coordinator=rules.completed(rest))


def _delays(model: TransactionModel, state: State) -> Iterator[Step]:
    """Yield delayed requests: in flight, or verified and waiting for the append."""
    for number in range(len(state.producers)):
        for label, waiting, request in requests(model, state, number):
            if request.kind not in model.budgets.delayed:
                continue
            delayed = waiting._replace(flight=waiting.flight | {request})
            yield f"{label}: late", _spent(delayed, "delays")
            if request.kind != "produce" or not model.verifies:
                continue
            answer, after, guard = verify(model, waiting, request)
            if answer is Answer.NONE:
                delayed = after._replace(flight=after.flight | {request._replace(guard=guard)})
                yield f"{label}: verified, late", _spent(delayed, "delays")


def _unanswered(model: TransactionModel, state: State) -> Iterator[Step]:
    """Yield requests without a response: carried out, or lost with their connection."""
    for number in range(len(state.producers)):
        for label, waiting, request in requests(model, state, number):
            yield f"{label}: lost", _spent(waiting, "unanswered")
            answer, after = answered(model, waiting, request)
            if answer is Answer.NONE:
                yield f"{label}: unanswered", _spent(after, "unanswered")


def _failovers(model: TransactionModel, state: State) -> Iterator[Step]:
    """Yield failovers to another coordinator; a marker of the old one may be in flight."""
    for logged in transaction_log.loaded(state.logged):
        after = _spent(_loaded(state, logged), "failovers")
        yield "the coordinator fails over", after
        for request in markers(state.coordinator):
            delayed = after._replace(flight=after.flight | {request})
            yield f"the coordinator fails over, a {_name(request)} is late", delayed


def _coordinator_losses(state: State) -> Iterator[Step]:
    for logged in transaction_log.older(state.logged):
        after = _loaded(state, logged)
        label = f"the coordinator fails over and loads {after.coordinator.state.name}"
        yield label, _spent(after, "coordinator_losses")


def _loaded(state: State, logged: transaction_log.Log) -> State:
    coordinator = logged[-1]._replace(term=state.coordinator.term + 1)
    return state._replace(coordinator=coordinator, logged=(*logged[:-1], coordinator))


def _log_losses(state: State) -> Iterator[Step]:
    """Yield losses of committed entries; the producer state follows from the rest."""
    for at, partition in enumerate(state.partitions):
        for kept in range(len(partition.log)):
            after = with_partition(state, at, Partition(partition.log[:kept], None))
            yield f"partition {at} keeps {kept} of its entries", _spent(after, "log_losses")


def _spent(state: State, kind: str) -> State:
    return state._replace(left=TransactionBudgets.spend(state.left, kind))


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
