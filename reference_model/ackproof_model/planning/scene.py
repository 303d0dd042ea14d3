"""A partition in the hands of an operator: its state, and what the operator has done to it.

The adversary of `adversary` delays whatever it likes. An operator cannot: what needs no timer
happens at once, unless it is kept from happening. So a scene is a state, and what keeps things
from happening in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from ackproof_model.adversary.bounds import Question
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


class Deed(StrEnum):
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
ENDS = (Deed.KILL, Deed.LOSE_POWER, Deed.STOP)
#: What cuts a link.
CUTS = (Deed.LAG, Deed.WITHHOLD, Deed.CUT_OFF)
#: What ends another deed.
HEALS = (Deed.START, Deed.JOIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A deed to one broker.

    `settled`: the operator waits afterwards until all timers that can fire have fired. A JOIN
    ends the cut `ends`.
    """

    deed: Deed
    broker: int
    settled: bool = True
    ends: Deed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One partition, and what an operator has done to it.

    in_force: the deeds that hold, in the order in which they began. dying: dead brokers whose
    session has not ended, the first to die first. flushed: each broker's records that it fsynced
    (by a controlled shutdown). writer: the broker that the producer sends to.
    """

    state: State
    in_force: tuple[Operation, ...] = ()
    dying: tuple[int, ...] = ()
    flushed: tuple[int, ...] = ()
    writer: int = 0

    def held(self, deed: Deed, broker: int) -> bool:
        """Whether a deed holds a broker."""
        return any(one.deed is deed and one.broker == broker for one in self.in_force)

    def fetches(self, broker: int, source: int) -> bool:
        """Whether nothing keeps a broker from fetching from another."""
        return not (
            self.held(Deed.LAG, broker)
            or self.held(Deed.LAG, source)
            or self.held(Deed.WITHHOLD, source)
        )

    def with_broker(
        self, number: int, replica: Replica, partition: Partition | None = None
    ) -> Scene:
        """Return the scene with another state of one broker, and of the partition."""
        own = self.state.replicas
        state = self.state._replace(
            replicas=(*own[:number], replica, *own[number + 1 :]),
            partition=partition or self.state.partition,
        )
        return replace(self, state=state)


def opening(question: Question) -> Scene:
    """Return the scene at the start: all is well."""
    return Scene(state=initial(question), flushed=(0,) * question.replicas)


def done(question: Question, scene: Scene, operation: Operation) -> Scene | None:
    """Return the scene right after an operation, None if it cannot be done."""
    deed, number = operation.deed, operation.broker
    if deed in HEALS:
        return _healed(question, scene, operation)
    if deed in CUTS:
        replication = (Deed.LAG, Deed.WITHHOLD)
        clashing = replication if deed in replication else (deed,)
        if any(scene.held(cut, number) for cut in clashing):
            return None
        return replace(scene, in_force=(*scene.in_force, operation))
    if any(scene.held(end, number) for end in ENDS):
        return None
    ended = next(_end(question, scene, operation), None)
    if ended is None:
        return None
    _, partition, replica = ended
    after = scene.with_broker(number, replica, partition)
    dying = scene.dying if deed is Deed.STOP else (*scene.dying, number)
    return replace(after, in_force=(*scene.in_force, operation), dying=dying)


def _end(question: Question, scene: Scene, operation: Operation) -> Iterator[Move]:
    partition, number = scene.state.partition, operation.broker
    replica = scene.state.replicas[number]
    if operation.deed is Deed.KILL:
        yield from kills(question, partition, replica, number)
    elif operation.deed is Deed.STOP:
        if not scene.held(Deed.CUT_OFF, number):  # it would have to ask the controller
            yield from clean_stops(question, partition, replica, number)
    elif replica.alive:
        kept = replica.log if question.flush_every_record else scene.flushed[number] & replica.log
        log = prefix(replica.log, kept.bit_count())
        if log != replica.log:  # else there was nothing to lose
            yield ("lose power", number), partition, stopped(question, replica, log)


def _healed(question: Question, scene: Scene, operation: Operation) -> Scene | None:
    number = operation.broker
    ended = ENDS if operation.deed is Deed.START else (operation.ends,)
    left = tuple(one for one in scene.in_force if not (one.broker == number and one.deed in ended))
    if left == scene.in_force:
        return None
    if operation.deed is Deed.JOIN:
        return replace(scene, in_force=left)
    if scene.held(Deed.CUT_OFF, number):
        return None  # it could not register
    own = scene.state.replicas
    started = restart(question, scene.state.partition, own[number], number)
    if started is None:
        return None
    _, partition, replica = started
    replicas = tuple(
        replica if other == number else forget(question, known, number)
        for other, known in enumerate(own)
    )
    state = scene.state._replace(partition=partition, replicas=replicas)
    return replace(scene, state=state, in_force=left)
