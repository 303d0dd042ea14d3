"""A partition and the operations in force on it.

The adversary of `adversary` can delay any step. An operator cannot: a step without a timer happens
at once unless an operation prevents it. So a plan state is a state and the operations in force.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from ackproof_model.adversary.bounds import AdversaryModel
from ackproof_model.adversary.metadata import Move, restart, stopped
from ackproof_model.adversary.perturbations import clean_stops, kills
from ackproof_model.adversary.replicas import forget
from ackproof_model.adversary.state import (
    Partition,
    Replica,
    State,
    initial,
)
from ackproof_model.replication.state import Log


class OperationKind(StrEnum):
    """An operation on one broker."""

    KILL = "kill"  # SIGKILL
    LOSE_POWER = "lose power"  # SIGKILL, and the log loses what was not fsynced
    STOP = "stop"  # SIGTERM: controlled shutdown
    LAG = "lag"  # no replication from or to it
    WITHHOLD = "withhold"  # no other broker can fetch from it
    CUT_OFF = "cut off"  # no connection between it and the controllers
    START = "start"  # ends a KILL, LOSE_POWER or STOP
    JOIN = "join"  # ends a LAG, WITHHOLD or CUT_OFF


#: Operations that end a process.
PROCESS_STOPS = (OperationKind.KILL, OperationKind.LOSE_POWER, OperationKind.STOP)
#: Operations that cut a link.
CUTS = (OperationKind.LAG, OperationKind.WITHHOLD, OperationKind.CUT_OFF)
#: Operations that end another one.
HEALS = (OperationKind.START, OperationKind.JOIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation on one broker.

    settled: the operator waits afterwards until all timers that can fire have fired. ends: the cut
    that a JOIN ends.
    """

    kind: OperationKind
    broker: int
    settled: bool = True
    ends: OperationKind | None = None


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

    def held(self, kind: OperationKind, broker: int) -> bool:
        return any(one.kind is kind and one.broker == broker for one in self.in_force)

    def fetches(self, broker: int, source: int) -> bool:
        """Whether no operation prevents a broker from fetching from another."""
        return not (
            self.held(OperationKind.LAG, broker)
            or self.held(OperationKind.LAG, source)
            or self.held(OperationKind.WITHHOLD, source)
        )

    def with_broker(
        self, number: int, replica: Replica, partition: Partition | None = None
    ) -> PlanState:
        own = self.state.replicas
        state = self.state._replace(
            replicas=(*own[:number], replica, *own[number + 1 :]),
            partition=partition or self.state.partition,
        )
        return replace(self, state=state)


def initial_plan_state(model: AdversaryModel) -> PlanState:
    return PlanState(state=initial(model), flushed=((),) * model.replicas)


def performed(
    model: AdversaryModel, plan_state: PlanState, operation: Operation
) -> PlanState | None:
    """Return the state right after an operation, None if it is not possible."""
    kind, number = operation.kind, operation.broker
    if kind in HEALS:
        return _healed(model, plan_state, operation)
    if kind in CUTS:
        replication = (OperationKind.LAG, OperationKind.WITHHOLD)
        clashing = replication if kind in replication else (kind,)
        if any(plan_state.held(cut, number) for cut in clashing):
            return None
        return replace(plan_state, in_force=(*plan_state.in_force, operation))
    if any(plan_state.held(end, number) for end in PROCESS_STOPS):
        return None
    ended = next(_end(model, plan_state, operation), None)
    if ended is None:
        return None
    _, partition, replica = ended
    after = plan_state.with_broker(number, replica, partition)
    dying = plan_state.dying if kind is OperationKind.STOP else (*plan_state.dying, number)
    return replace(after, in_force=(*plan_state.in_force, operation), dying=dying)


def _end(model: AdversaryModel, plan_state: PlanState, operation: Operation) -> Iterator[Move]:
    partition, number = plan_state.state.partition, operation.broker
    replica = plan_state.state.replicas[number]
    if operation.kind is OperationKind.KILL:
        yield from kills(model, partition, replica, number)
    elif operation.kind is OperationKind.STOP:
        if not plan_state.held(OperationKind.CUT_OFF, number):  # it could not ask the controller
            yield from clean_stops(model, partition, replica, number)
    elif replica.alive:
        flushed = replica.log if model.flush_every_record else plan_state.flushed[number]
        log = replica.log[: sum(map(operator.eq, replica.log, flushed))]
        if log != replica.log:  # else it would lose nothing
            yield ("lose power", number), partition, stopped(model, replica, log)


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
    if plan_state.held(OperationKind.CUT_OFF, number):
        return None  # it could not register
    own = plan_state.state.replicas
    started = restart(model, plan_state.state.partition, own[number], number)
    if started is None:
        return None
    _, partition, replica = started
    replicas = tuple(
        replica if other == number else forget(model, known, number)
        for other, known in enumerate(own)
    )
    state = plan_state.state._replace(partition=partition, replicas=replicas)
    return replace(plan_state, state=state, in_force=left)
