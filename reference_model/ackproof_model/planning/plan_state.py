"""A partition in the hands of an operator: its state, and what the operator has done to it.

The adversary of `adversary` delays whatever it likes. An operator cannot: what needs no timer
happens at once, unless it is kept from happening. So a plan_state is a state, and what keeps things
from happening in it.
"""

from __future__ import annotations

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
    prefix,
)


class OperationKind(StrEnum):
    """What an operator does to one broker."""

    KILL = "kill"  # SIGKILL
    LOSE_POWER = "lose power"  # SIGKILL, and the log loses what was not fsynced
    STOP = "stop"  # SIGTERM: controlled shutdown
    LAG = "lag"  # no replication from or to it
    WITHHOLD = "withhold"  # nobody can fetch from it
    CUT_OFF = "cut off"  # the controller neither hears it nor is heard by it
    START = "start"  # ends a KILL, LOSE_POWER or STOP
    JOIN = "join"  # ends a LAG, WITHHOLD or CUT_OFF


#: What ends a process.
PROCESS_STOPS = (OperationKind.KILL, OperationKind.LOSE_POWER, OperationKind.STOP)
#: What cuts a link.
CUTS = (OperationKind.LAG, OperationKind.WITHHOLD, OperationKind.CUT_OFF)
#: What ends another kind.
HEALS = (OperationKind.START, OperationKind.JOIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A kind to one broker.

    `settled`: the operator waits afterwards until all timers that can fire have fired. A JOIN
    ends the cut `ends`.
    """

    kind: OperationKind
    broker: int
    settled: bool = True
    ends: OperationKind | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanState:
    """One partition, and what an operator has done to it.

    in_force: the operations that hold, in the order in which they began. dying: dead brokers whose
    session has not ended, the first to die first. flushed: each broker's records that it fsynced
    (by a controlled shutdown). writer: the broker that the producer sends to.
    """

    state: State
    in_force: tuple[Operation, ...] = ()
    dying: tuple[int, ...] = ()
    flushed: tuple[int, ...] = ()
    writer: int = 0

    def held(self, kind: OperationKind, broker: int) -> bool:
        """Whether a kind holds a broker."""
        return any(one.kind is kind and one.broker == broker for one in self.in_force)

    def fetches(self, broker: int, source: int) -> bool:
        """Whether nothing keeps a broker from fetching from another."""
        return not (
            self.held(OperationKind.LAG, broker)
            or self.held(OperationKind.LAG, source)
            or self.held(OperationKind.WITHHOLD, source)
        )

    def with_broker(
        self, number: int, replica: Replica, partition: Partition | None = None
    ) -> PlanState:
        """Return the plan_state with another state of one broker, and of the partition."""
        own = self.state.replicas
        state = self.state._replace(
            replicas=(*own[:number], replica, *own[number + 1 :]),
            partition=partition or self.state.partition,
        )
        return replace(self, state=state)


def opening(model: AdversaryModel) -> PlanState:
    """Return the plan_state at the start: all is well."""
    return PlanState(state=initial(model), flushed=(0,) * model.replicas)


def done(model: AdversaryModel, plan_state: PlanState, operation: Operation) -> PlanState | None:
    """Return the plan_state right after an operation, None if it cannot be done."""
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
        if not plan_state.held(
            OperationKind.CUT_OFF, number
        ):  # it would have to ask the controller
            yield from clean_stops(model, partition, replica, number)
    elif replica.alive:
        kept = replica.log if model.flush_every_record else plan_state.flushed[number] & replica.log
        log = prefix(replica.log, kept.bit_count())
        if log != replica.log:  # else there was nothing to lose
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
