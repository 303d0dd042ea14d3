"""A partition and the operations in force on it.

An adversary can delay any step, an operator cannot: a step without a timer happens at once
unless an operation prevents it.

After an operation, prompt steps (acks, metadata, fetches, registration, ISR changes) follow first.
Then timers fire, each followed by prompt steps: followers learn of a high watermark without a
record (`replica.fetch.wait.max.ms`), sessions end (`broker.session.timeout.ms`) in the order in
which the controller lost contact, then followers that cannot fetch leave the ISR
(`replica.lag.time.max.ms`). The order of prompt steps does not change the result.

While a leader accepts records there is always a next one, so that this first timer does not fire:
followers have not heard that the last record is committed.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from ackproof_model.adversary.moves import Move, lags, moves, restart, writes
from ackproof_model.adversary.state import AdversaryModel, State, initial
from ackproof_model.adversary.successors import clean_stops, fencings, kills, with_brokers
from ackproof_model.replication.controller import (
    can_cancel,
    can_move_leader,
    can_reassign,
    cancel,
    elected,
    preferred,
    reassign,
    with_version,
)
from ackproof_model.replication.replica import can_append, can_end, ended, fetch, forget
from ackproof_model.replication.state import NOBODY, Broker, Controller, Label, Log


class OperationKind(StrEnum):
    """An operation on one broker."""

    KILL = "kill"  # SIGKILL
    LOSE_POWER = "lose power"  # SIGKILL, and the log loses what was not fsynced
    STOP = "stop"  # SIGTERM: controlled shutdown
    LAG = "lag"  # no replication from or to it
    WITHHOLD = "withhold"  # no other broker can fetch from it
    CUT_OFF = "cut off"  # no connection between it and the controllers
    HOLD_FETCHES = "hold fetches"  # it cannot fetch from the leader that it has now
    HOLD_METADATA = "hold metadata"  # it learns of no change, and keeps its session
    HOLD_ISR = "hold ISR requests"  # the controller gets none of its requests for another ISR
    HOLD_WRITES = "hold writes"  # it leads, and what a producer has given up comes later
    HOLD_MARKERS = "hold markers"  # it leads, and gets the end of a transaction again, later
    ELECT = "elect"  # it becomes the preferred replica, and is elected
    REASSIGN = "reassign"  # the replicas move to other brokers
    CANCEL = "cancel"  # ends a reassignment
    START = "start"  # ends a KILL, LOSE_POWER or STOP
    JOIN = "join"  # ends one of CUTS or CLIENT_HOLDS


#: Operations that end a process.
PROCESS_STOPS = (OperationKind.KILL, OperationKind.LOSE_POWER, OperationKind.STOP)
#: Operations that hold requests; there are some where leaders may miss epochs.
HOLDS = (OperationKind.HOLD_FETCHES, OperationKind.HOLD_METADATA, OperationKind.HOLD_ISR)
#: Operations that cut a link, or hold what passes through it.
CUTS = (OperationKind.LAG, OperationKind.WITHHOLD, OperationKind.CUT_OFF, *HOLDS)
#: Operations that hold a request of a transaction. They are no steps of the model, in which each
#: client may be late anyway: what becomes of transactions is judged only.
CLIENT_HOLDS = (OperationKind.HOLD_WRITES, OperationKind.HOLD_MARKERS)
#: Operations that keep a broker from registering.
_UNREGISTERED = (OperationKind.CUT_OFF, OperationKind.HOLD_METADATA)
#: Of these a broker has one between it and the controllers, and one of the others.
_CONTROL = (*_UNREGISTERED, OperationKind.HOLD_ISR)
#: Operations that end another operation.
HEALS = (OperationKind.START, OperationKind.JOIN)
#: Operations that are no perturbation.
FREE = (*HEALS, OperationKind.WITHHOLD, *HOLDS, *CLIENT_HOLDS)
#: Requests to the controller.
REQUESTS = (OperationKind.ELECT, OperationKind.REASSIGN, OperationKind.CANCEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation on one broker.

    settled: the operator waits afterwards until all timers that can fire have fired. ends: the cut
    or hold that a JOIN ends. to: the replicas of a REASSIGN, whose `broker` is the first of them;
    that of a CANCEL is the first replica.
    """

    kind: OperationKind
    broker: int
    settled: bool = True
    ends: OperationKind | None = None
    to: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanState:
    """A partition and the operations in force on it.

    in_force: in the order in which they began. dying: dead brokers whose session has not ended, in
    the order of their deaths. flushed: for each broker the records that it has fsynced (by a
    controlled shutdown). writer: the broker that the producer sends to.
    """

    state: State
    in_force: tuple[Operation, ...] = ()
    dying: tuple[int, ...] = ()
    flushed: tuple[Log, ...] = ()
    writer: int = 0

    def is_in_force(self, kind: OperationKind, broker: int) -> bool:
        return any(one.kind is kind and one.broker == broker for one in self.in_force)

    def cannot_fetch(self, broker: int, source: int) -> bool:
        """Whether an operation prevents a broker from fetching from another."""
        return (
            self.lags(broker, source)
            or self.is_in_force(OperationKind.WITHHOLD, source)
            or self.is_in_force(OperationKind.HOLD_FETCHES, broker)
        )

    def lags(self, broker: int, source: int) -> bool:
        return any(self.is_in_force(OperationKind.LAG, one) for one in (broker, source))

    def with_brokers(
        self, changed: dict[int, Broker], controller: Controller | None = None
    ) -> PlanState:
        return replace(self, state=with_brokers(self.state, changed, controller))


def initial_plan_state(model: AdversaryModel) -> PlanState:
    return PlanState(state=initial(model), flushed=((),) * model.brokers)


def performed(
    model: AdversaryModel, plan_state: PlanState, operation: Operation
) -> PlanState | None:
    """Return the state right after an operation, None if it is not possible."""
    kind, number = operation.kind, operation.broker
    if kind in HEALS:
        return _healed(model, plan_state, operation)
    if kind in CUTS or kind in CLIENT_HOLDS:
        cut = replace(plan_state, in_force=(*plan_state.in_force, operation))
        return cut if _may_cut(model, plan_state, operation) else None
    if kind in REQUESTS:
        requested = _requested(model, plan_state.state.controller, operation)
        return requested and plan_state.with_brokers({}, requested)
    if any(plan_state.is_in_force(end, number) for end in PROCESS_STOPS):
        return None
    end = next(_end(model, plan_state, operation), None)
    if end is None:
        return None
    _, controller, broker = end
    after = plan_state.with_brokers({number: broker}, controller)
    dying = plan_state.dying if kind is OperationKind.STOP else (*plan_state.dying, number)
    return replace(after, in_force=(*plan_state.in_force, operation), dying=dying)


def _may_cut(model: AdversaryModel, plan_state: PlanState, operation: Operation) -> bool:
    """Whether a link may be cut: the broker lives, and where a cut holds requests, some are sent.

    Where leaders may miss epochs, all links lead through a proxy, so that a cut holds requests.
    """
    kind, number = operation.kind, operation.broker
    if not plan_state.state.brokers[number].alive:
        return False
    if kind in CLIENT_HOLDS:
        leads = plan_state.state.controller.leader == number
        return leads and all(one.kind is not kind for one in plan_state.in_force)
    if any(
        one.broker == number and (one.kind in _CONTROL) == (kind in _CONTROL)
        for one in plan_state.in_force
        if one.kind in CUTS
    ):
        return False
    if not model.misses_epochs:
        return kind not in HOLDS
    own, controller = plan_state.state.brokers, plan_state.state.controller
    leader = controller.leader
    if leader == NOBODY or not own[leader].alive:
        return False
    outside = any(
        controller.assigned(one) and not controller.isr >> one & 1 for one in range(model.brokers)
    )
    sends = {
        OperationKind.HOLD_METADATA: True,
        OperationKind.WITHHOLD: number == leader,
        OperationKind.HOLD_ISR: number == leader and outside,  # once that one has caught up
        OperationKind.CUT_OFF: False,
    }
    return sends.get(kind, own[number].leader == leader != number)


def _requested(
    model: AdversaryModel, controller: Controller, operation: Operation
) -> Controller | None:
    """Return the controller after a request; None if it would refuse it, or if nothing changes."""
    policy, number, assignment = model.policy, operation.broker, controller.assignment
    if operation.kind is OperationKind.ELECT:
        if not can_move_leader(controller, number):
            return None
        if preferred(controller) != number:
            if assignment is None or assignment.adding or assignment.removing:
                return None  # its order cannot change
            if any(controller.fenced >> one & 1 for one in assignment.replicas):
                return None  # the tool refuses fenced brokers
            others = (one for one in assignment.replicas if one != number)
            controller = reassign(policy, controller, (number, *others))
        return elected(controller, number)
    if assignment is None:
        return None
    if operation.kind is OperationKind.CANCEL:
        possible = can_cancel(policy, controller) and number == assignment.replicas[0]
        after = cancel(policy, controller) if possible else controller
    else:
        possible = operation.to in model.requests and can_reassign(policy, controller, operation.to)
        possible = possible and not any(controller.fenced >> one & 1 for one in operation.to)
        after = reassign(policy, controller, operation.to) if possible else controller
    return None if after == controller else with_version(controller, after)


def _end(model: AdversaryModel, plan_state: PlanState, operation: Operation) -> Iterator[Move]:
    controller, number = plan_state.state.controller, operation.broker
    broker = plan_state.state.brokers[number]
    if operation.kind is OperationKind.KILL:
        yield from kills(model, controller, broker, number)
    elif operation.kind is OperationKind.STOP:
        # It could not ask the controller, or would wait until each broker has learned of it.
        late = any(one.kind is OperationKind.HOLD_METADATA for one in plan_state.in_force)
        if not late and not plan_state.is_in_force(OperationKind.CUT_OFF, number):
            yield from clean_stops(model, controller, broker, number)
    elif can_end(broker):
        flushed = broker.log if model.flush_every_record else plan_state.flushed[number]
        log = broker.log[: sum(map(operator.eq, broker.log, flushed))]
        if log != broker.log:
            down = ended(model.policy, broker._replace(log=log))
            yield ("lose power", number), controller, down


def _healed(model: AdversaryModel, plan_state: PlanState, operation: Operation) -> PlanState | None:
    number = operation.broker
    ended = PROCESS_STOPS if operation.kind is OperationKind.START else (operation.ends,)
    left = tuple(
        one for one in plan_state.in_force if not (one.broker == number and one.kind in ended)
    )
    if left == plan_state.in_force:
        return None
    if operation.kind is OperationKind.JOIN:
        return replace(plan_state, in_force=left)
    if any(plan_state.is_in_force(cut, number) for cut in _UNREGISTERED):
        return None
    own = plan_state.state.brokers
    started = restart(model, plan_state.state.controller, own[number], number)
    if started is None:
        return None
    _, controller, broker = started
    known = {other: forget(model.policy, one, number) for other, one in enumerate(own)}
    after = plan_state.with_brokers({**known, number: broker}, controller)
    return replace(after, in_force=left)


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

    A producer sends to the leader that it knows while that broker acts as leader.
    """
    state = plan_state.state
    for number in _asked(plan_state):
        for label, after, written in writes(model, state.brokers[number], number, state.writes):
            if label[0] == "write":
                wrote = plan_state.with_brokers({number: after})
                then = wrote.state._replace(writes=written)
                return label, replace(wrote, state=then, writer=number)
    return None


def _asked(plan_state: PlanState) -> list[int]:
    """Return the brokers that a producer sends to, the one that it knows first."""
    leader = plan_state.state.controller.leader
    return [number for number in (plan_state.writer, leader) if number != NOBODY]


def _prompt(model: AdversaryModel, plan_state: PlanState) -> Iterator[Taken]:
    """Yield the prompt steps; fetches come before the ISR changes that depend on them."""
    state = plan_state.state
    for number, broker in enumerate(state.brokers):
        for label, after, written in writes(model, broker, number, state.writes):
            if label[0] == "ack":
                acked = plan_state.with_brokers({number: after})
                yield label, replace(acked, state=acked.state._replace(writes=written))
    connected = [
        number
        for number in range(model.brokers)
        if not plan_state.is_in_force(OperationKind.CUT_OFF, number)
    ]
    informed = [
        number
        for number in connected
        if not plan_state.is_in_force(OperationKind.HOLD_METADATA, number)
    ]
    yield from _with_controller(model, plan_state, informed, ("learn", "delete"))
    yield from fetches(model, plan_state, waited=False)
    yield from _with_controller(
        model, plan_state, connected, ("unfence", "exit", "apply", "refuse")
    )
    yield from _with_controller(model, plan_state, connected, ("expand",))


def fetches(model: AdversaryModel, plan_state: PlanState, *, waited: bool) -> Iterator[Taken]:
    """Yield the fetches that are answered at once, or those that only bring a high watermark."""
    brokers = plan_state.state.brokers
    for number, broker in enumerate(brokers):
        source = broker.leader
        if source in (NOBODY, number) or plan_state.cannot_fetch(number, source):
            continue
        fetched = fetch(model.policy, broker, number, brokers[source], source)
        if fetched is None:
            continue
        what, follower, leader = fetched
        nothing = leader == brokers[source] and follower == broker._replace(hw=follower.hw)
        if nothing is waited:
            moved = plan_state.with_brokers({number: follower, source: leader})
            yield (what, number, source), moved


#: The controller's answers to requests for another ISR.
_ANSWERS = ("apply", "refuse")


def _with_controller(
    model: AdversaryModel, plan_state: PlanState, connected: list[int], kinds: tuple[str, ...]
) -> Iterator[Taken]:
    """Yield the steps of some kinds between the controller and the brokers that reach it.

    The steps of `moves` are restricted to what happens at once.
    """
    for number in connected:
        broker = plan_state.state.brokers[number]
        held = _ANSWERS if plan_state.is_in_force(OperationKind.HOLD_ISR, number) else ()
        for label, controller, after in moves(model, plan_state.state.controller, broker, number):
            what, *names = label
            if what not in kinds or what in held:
                continue
            if what == "expand" and not _has_fetched(plan_state, number, names[1]):
                continue
            moved = plan_state.with_brokers({number: after}, controller)
            if what == "exit":
                flushed = list(plan_state.flushed)
                flushed[number] = after.log
                moved = replace(moved, flushed=tuple(flushed))
            yield label, moved


def _has_fetched(plan_state: PlanState, leader: int, joiner: int) -> bool:
    """Whether a follower fetches from a leader: only then may the leader add it to the ISR."""
    leading, follower = plan_state.state.brokers[leader], plan_state.state.brokers[joiner]
    return (
        follower.alive
        and (follower.leader, follower.epoch) == (leader, leading.epoch)
        and not leading.stale >> joiner & 1
        and not plan_state.cannot_fetch(joiner, leader)
    )


def _timed(model: AdversaryModel, plan_state: PlanState) -> Iterator[Taken]:
    """Yield the steps of timers: fetches are answered, sessions end, then followers have lagged."""
    state = plan_state.state
    if not any(can_append(model.policy, state.brokers[one], one) for one in _asked(plan_state)):
        yield from fetches(model, plan_state, waited=True)
    for number in plan_state.dying:
        left = tuple(one for one in plan_state.dying if one != number)
        for label, controller, after in moves(
            model, state.controller, state.brokers[number], number
        ):
            if label[0] == "fence":
                fenced = plan_state.with_brokers({number: after}, controller)
                yield label, replace(fenced, dying=left)
    for operation in plan_state.in_force:
        if operation.kind is OperationKind.CUT_OFF:
            number = operation.broker
            cut_off = fencings(model, state.controller, state.brokers[number], number)
            for label, controller, after in cut_off:
                yield label, plan_state.with_brokers({number: after}, controller)
    for number, broker in enumerate(state.brokers):
        for label, controller, after in lags(model, state.controller, broker, number):
            _, *names = label
            late = names[1]
            # Where leaders may miss epochs, this timer is longer than any delay.
            cut = plan_state.lags if model.misses_epochs else plan_state.cannot_fetch
            if cut(late, number) and broker.remote[late] < len(broker.log):
                yield label, plan_state.with_brokers({number: after}, controller)
