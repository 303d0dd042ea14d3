"""What happens by itself after an operation, and in which order.

Prompt is what needs no timer: acks, metadata, fetches, registration, what a leader asks of the ISR
when a follower fetches. Then the timers: sessions end (`broker.session.timeout.ms`), in the order
in which the controller stopped hearing; then followers that cannot fetch have lagged for
`replica.lag.time.max.ms`. After each timer, what is prompt happens again. Of several prompt steps
the order does not matter to where they lead.
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

#: Nothing here goes on for ever; if it did, that would be a defect.
_MOST_STEPS = 1000


def settle(model: AdversaryModel, plan_state: PlanState, *, timers: bool) -> Iterator[Taken]:
    """Yield each step that follows by itself, with the plan_state after it: prompt ones, or all."""
    for _ in range(_MOST_STEPS):
        step = next(_prompt(model, plan_state), None)
        if step is None and timers:
            step = next(_timed(model, plan_state), None)
        if step is None:
            return
        yield step
        plan_state = step[1]
    raise RuntimeError(f"the plan_state does not come to rest: {plan_state}")


def produce(model: AdversaryModel, plan_state: PlanState) -> Taken | None:
    """Return the next record's append, None if nobody would take it.

    A producer stays with the leader it knows for as long as that one answers as a leader.
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
    """Yield what happens at once; what brings a follower up to date before what asks for it."""
    state = plan_state.state
    for number, replica in enumerate(state.replicas):
        for label, after, written in writes(model, replica, number, state.writes):
            if label[0] == "ack":
                acked = plan_state.with_broker(number, after)
                yield label, replace(acked, state=acked.state._replace(writes=written))
    heard = [
        number
        for number in range(model.replicas)
        if not plan_state.held(OperationKind.CUT_OFF, number)
    ]
    yield from _with_controller(model, plan_state, heard, ("learn",))
    for number, replica in enumerate(state.replicas):
        source = replica.leader
        if source in (NOBODY, number) or not plan_state.fetches(number, source):
            continue
        fetched = fetch(model, replica, number, state.replicas[source], source, state.writes.epochs)
        if fetched is not None:
            label, follower, leader = fetched
            yield label, plan_state.with_broker(number, follower).with_broker(source, leader)
    yield from _with_controller(model, plan_state, heard, ("unfence", "exit", "apply", "refuse"))
    yield from _with_controller(model, plan_state, heard, ("expand",))


def _with_controller(
    model: AdversaryModel, plan_state: PlanState, heard: list[int], kinds: tuple[str, ...]
) -> Iterator[Taken]:
    """Yield what happens between the controller and whoever it hears."""
    for number in heard:
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
    """Whether a follower fetches from a leader: only then its place in the ISR is looked at."""
    chief, follower = plan_state.state.replicas[leader], plan_state.state.replicas[joiner]
    return (
        follower.alive
        and (follower.leader, follower.epoch) == (leader, chief.epoch)
        and not chief.stale >> joiner & 1
        and plan_state.fetches(joiner, leader)
    )


def _timed(model: AdversaryModel, plan_state: PlanState) -> Iterator[Taken]:
    """Yield what only time brings: sessions end first, then followers have lagged."""
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
