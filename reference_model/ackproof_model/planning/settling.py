"""The steps that follow an operation, and their order.

Prompt steps need no timer: acks, metadata, fetches, registration, ISR changes when a follower
fetches. Then timers fire: sessions end (`broker.session.timeout.ms`), in the order in which the
controller lost contact; then followers that cannot fetch have lagged for `replica.lag.time.max.ms`.
Prompt steps follow after each timer. The order of several prompt steps does not change the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ackproof_model.adversary.bounds import AdversaryModel
from ackproof_model.adversary.metadata import moves
from ackproof_model.adversary.perturbations import fencings
from ackproof_model.adversary.replicas import fetch, shrinks, writes
from ackproof_model.adversary.state import Label
from ackproof_model.planning.plan_state import OperationKind, PlanState
from ackproof_model.replication.state import NOBODY

Taken = tuple[Label, PlanState]

#: More steps than this after one operation are a defect.
_MOST_STEPS = 1000


def settle(model: AdversaryModel, plan_state: PlanState, *, timers: bool) -> Iterator[Taken]:
    """Yield each step that follows, with the state after it; prompt steps only without `timers`."""
    for _ in range(_MOST_STEPS):
        step = next(_prompt(model, plan_state), None)
        if step is None and timers:
            step = next(_timed(model, plan_state), None)
        if step is None:
            return
        yield step
        plan_state = step[1]
    raise RuntimeError(f"this state does not settle within {_MOST_STEPS} steps: {plan_state}")


def produce(model: AdversaryModel, plan_state: PlanState) -> Taken | None:
    """Return the append of the next record, None if no broker accepts it.

    A producer keeps sending to the leader it knows for as long as that broker acts as leader.
    """
    state = plan_state.state
    leader = state.partition.controller.leader
    for number in (plan_state.writer, leader):
        if number == NOBODY:
            continue
        for label, after, written in writes(model, state.replicas[number], number, state.writes):
            if label[0] == "write":
                wrote = plan_state.with_broker(number, after)
                then = wrote.state._replace(writes=written)
                return label, replace(wrote, state=then, writer=number)
    return None


def _prompt(model: AdversaryModel, plan_state: PlanState) -> Iterator[Taken]:
    """Yield the prompt steps; fetches come before the ISR changes that depend on them."""
    state = plan_state.state
    for number, replica in enumerate(state.replicas):
        for label, after, written in writes(model, replica, number, state.writes):
            if label[0] == "ack":
                acked = plan_state.with_broker(number, after)
                yield label, replace(acked, state=acked.state._replace(writes=written))
    connected = [
        number
        for number in range(model.replicas)
        if not plan_state.held(OperationKind.CUT_OFF, number)
    ]
    yield from _with_controller(model, plan_state, connected, ("learn",))
    for number, replica in enumerate(state.replicas):
        source = replica.leader
        if source in (NOBODY, number) or not plan_state.fetches(number, source):
            continue
        fetched = fetch(model, replica, number, state.replicas[source], source, state.writes.epochs)
        if fetched is not None:
            label, follower, leader = fetched
            yield label, plan_state.with_broker(number, follower).with_broker(source, leader)
    yield from _with_controller(
        model, plan_state, connected, ("unfence", "exit", "apply", "refuse")
    )
    yield from _with_controller(model, plan_state, connected, ("expand",))


def _with_controller(
    model: AdversaryModel, plan_state: PlanState, connected: list[int], kinds: tuple[str, ...]
) -> Iterator[Taken]:
    """Yield the steps of some kinds between the controller and the brokers that reach it."""
    for number in connected:
        replica = plan_state.state.replicas[number]
        for label, partition, after in moves(model, plan_state.state.partition, replica, number):
            what, *names = label
            if what not in kinds or (
                what == "expand" and not _has_fetched(plan_state, number, names[1])
            ):
                continue
            moved = plan_state.with_broker(number, after, partition)
            if what == "exit":
                flushed = list(plan_state.flushed)
                flushed[number] = after.log
                moved = replace(moved, flushed=tuple(flushed))
            yield label, moved


def _has_fetched(plan_state: PlanState, leader: int, joiner: int) -> bool:
    """Whether a follower fetches from a leader: only then may the leader add it to the ISR."""
    leading, follower = plan_state.state.replicas[leader], plan_state.state.replicas[joiner]
    return (
        follower.alive
        and (follower.leader, follower.epoch) == (leader, leading.epoch)
        and not leading.stale >> joiner & 1
        and plan_state.fetches(joiner, leader)
    )


def _timed(model: AdversaryModel, plan_state: PlanState) -> Iterator[Taken]:
    """Yield the steps of timers: sessions end first, then followers have lagged."""
    state = plan_state.state
    for number in plan_state.dying:
        left = tuple(one for one in plan_state.dying if one != number)
        replica = state.replicas[number]
        for label, partition, after in moves(model, state.partition, replica, number):
            if label[0] == "fence":
                fenced = plan_state.with_broker(number, after, partition)
                yield label, replace(fenced, dying=left)
    for operation in plan_state.in_force:
        if operation.kind is OperationKind.CUT_OFF:
            number = operation.broker
            replica = state.replicas[number]
            for label, partition, after in fencings(model, state.partition, replica, number):
                yield label, plan_state.with_broker(number, after, partition)
    for number, replica in enumerate(state.replicas):
        for label, after in shrinks(replica, number):
            _, *names = label
            late = names[1]
            if not plan_state.fetches(late, number) and replica.ends[late] < replica.end:
                yield label, plan_state.with_broker(number, after)
