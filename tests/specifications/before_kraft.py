"""How truncation grew up: the replication protocol under ZooKeeper, before and after each KIP.

The controller may shrink the ISR and elect from it at any time, its LeaderAndIsr requests arrive in
any order or never, and nothing else fails: no disk is lost, no broker is told from a slow one. What
is proven or refuted is the strong ISR property: what lies below the high watermark of whoever
believes to lead is on every member of the true ISR.

After J. Gustafson's TLA+ specification (hachikuji/kafka-specification: KafkaReplication,
KafkaTruncateToHighWatermark, Kip101, Kip279, Kip320).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ackproof_model.breadth_first import explore
from ackproof_model.replication.state import NOBODY, members

#: To where a follower truncates when it begins to follow. KIP-320 also fences fetches, truncation
#: and the high watermark by leader epoch, and lets nobody join the ISR before the epoch's start.
Truncation = Literal["high watermark", "KIP-101", "KIP-279", "KIP-320"]


class Quorum(NamedTuple):
    """What ZooKeeper holds of the partition, and what a LeaderAndIsr request carries."""

    leader: int
    epoch: int
    isr: int


class Replica(NamedTuple):
    """A replica: its log of (record, leader epoch), its high watermark, what it was told."""

    log: tuple[tuple[int, int], ...]
    hw: int
    told: Quorum


class State(NamedTuple):
    """Everything; `epochs` and `records` count those given out."""

    replicas: tuple[Replica, ...]
    quorum: Quorum
    requests: frozenset[Quorum]
    epochs: int
    records: int


Step = tuple[str, State]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How large the search is: replicas, records, offsets of a log, leader epochs."""

    truncation: Truncation
    replicas: int = 3
    records: int = 2
    log_size: int = 2
    epochs: int = 2

    @property
    def fenced(self) -> bool:
        """Whether leader epochs are compared (KIP-320)."""
        return self.truncation == "KIP-320"


def initial(bounds: Bounds) -> State:
    """Return the start: empty logs, nobody leads, everybody in sync."""
    nobody = Quorum(NOBODY, -1, 0)
    everyone = (1 << bounds.replicas) - 1
    replicas = (Replica((), 0, nobody),) * bounds.replicas
    return State(replicas, Quorum(NOBODY, -1, everyone), frozenset(), 0, 0)


def strong_isr(state: State) -> bool:
    """Whether all below a presumed leader's high watermark is on each member of the true ISR."""
    return all(
        len(replica.log) >= replica.hw
        and state.replicas[member].log[: replica.hw] == replica.log[: replica.hw]
        for number, replica in enumerate(state.replicas)
        if replica.told.leader == number
        for member in members(state.quorum.isr)
    )


def successors(bounds: Bounds, state: State) -> Iterator[Step]:
    """Yield every step."""
    yield from _controller(bounds, state)
    for number, replica in enumerate(state.replicas):
        yield from _told(bounds, state, number, replica)
        if replica.told.leader == number:
            yield from _leading(bounds, state, number, replica)
        elif replica.told.leader != NOBODY:
            yield from _fetching(bounds, state, number, replica)


def _controller(bounds: Bounds, state: State) -> Iterator[Step]:
    if state.epochs == bounds.epochs:
        return
    leader, _, isr = state.quorum
    for member in members(isr | (1 << leader if leader != NOBODY else 0)):
        rest = isr & ~(1 << member) if isr != 1 << member or member != leader else isr
        yield "controller shrinks", _decide(state, NOBODY if member == leader else leader, rest)
    for member in members(isr):
        if member != leader:
            yield "controller elects", _decide(state, member, isr)


def _decide(state: State, leader: int, isr: int) -> State:
    quorum = Quorum(leader, state.epochs, isr)
    return state._replace(
        quorum=quorum, requests=state.requests | {quorum}, epochs=state.epochs + 1
    )


def _told(bounds: Bounds, state: State, number: int, replica: Replica) -> Iterator[Step]:
    for request in state.requests:
        if request.epoch <= replica.told.epoch:
            continue
        if request.leader == number:
            yield "become leader", _with(state, number, replica._replace(told=request))
        elif request.leader == NOBODY:
            # Without a leader nothing is truncated; only KIP-320 keeps the high watermark, too.
            kept = replica.hw if bounds.fenced else min(replica.hw, _offset(bounds, state, replica))
            yield "no leader", _with(state, number, replica._replace(told=request, hw=kept))
        else:
            leader = state.replicas[request.leader]
            if bounds.fenced and leader.told != request:
                continue
            end = _offset(bounds, state, replica, leader)
            if end <= len(replica.log):
                hw = min(end, replica.hw)
                yield "follow", _with(state, number, Replica(replica.log[:end], hw, request))


def _offset(bounds: Bounds, state: State, replica: Replica, leader: Replica | None = None) -> int:
    """Return the offset to which a replica truncates when it begins to follow `leader`."""
    if leader is None or bounds.truncation == "high watermark":
        return replica.hw
    if bounds.truncation == "KIP-101":
        if not replica.log:
            return 0
        asked = replica.log[-1][1]
        if leader.log and leader.log[-1][1] == asked:
            return len(leader.log)
        larger = (offset for offset, (_, epoch) in enumerate(leader.log) if epoch > asked)
        return next(larger, replica.hw)
    same = [a == b for a, b in zip(replica.log, leader.log, strict=False)]
    return max((offset + 1 for offset, equal in enumerate(same) if equal), default=0)


def _follows(bounds: Bounds, follower: Replica, number: int, leader: Replica) -> bool:
    """Whether a replica takes `number` for its leader, in its epoch if that is compared."""
    return follower.told.leader == number and (
        not bounds.fenced or follower.told.epoch == leader.told.epoch
    )


def _leading(bounds: Bounds, state: State, number: int, replica: Replica) -> Iterator[Step]:
    epoch, end, hw = replica.told.epoch, len(replica.log), replica.hw
    if state.records < bounds.records and end < bounds.log_size:
        longer = replica._replace(log=(*replica.log, (state.records, epoch)))
        yield "write", _with(state, number, longer)._replace(records=state.records + 1)
    isr = [state.replicas[member] for member in members(replica.told.isr)]
    if hw < end and all(_follows(bounds, f, number, replica) and len(f.log) > hw for f in isr):
        yield "high watermark", _with(state, number, replica._replace(hw=hw + 1))
    if (state.quorum.leader, state.quorum.epoch) != (number, epoch):
        return  # ZooKeeper refuses the change of an older leader
    for other in range(bounds.replicas):
        follower = state.replicas[other]
        follows = _follows(bounds, follower, number, replica)
        if other == number:
            continue
        if replica.told.isr >> other & 1:
            if not follows or len(follower.log) < end:
                yield "leader shrinks", _alter(state, number, replica.told.isr & ~(1 << other))
        elif follows and len(follower.log) >= hw and _may_grow(bounds, replica):
            yield "leader expands", _alter(state, number, replica.told.isr | 1 << other)


def _may_grow(bounds: Bounds, leader: Replica) -> bool:
    """Whether the high watermark has reached the leader's epoch (KIP-320)."""
    hw, log = leader.hw, leader.log
    return not bounds.fenced or hw == len(log) or log[hw][1] == leader.told.epoch


def _alter(state: State, number: int, isr: int) -> State:
    replica = state.replicas[number]
    after = _with(state, number, replica._replace(told=replica.told._replace(isr=isr)))
    return after._replace(quorum=state.quorum._replace(isr=isr))


def _fetching(bounds: Bounds, state: State, number: int, replica: Replica) -> Iterator[Step]:
    source = replica.told.leader
    leader, end = state.replicas[source], len(replica.log)
    presumes = leader.told.leader == source
    if presumes and _follows(bounds, replica, source, leader) and end < len(leader.log):
        after = replica._replace(log=(*replica.log, leader.log[end]), hw=min(leader.hw, end + 1))
        yield "fetch", _with(state, number, after)


def _with(state: State, number: int, replica: Replica) -> State:
    replicas = state.replicas
    return state._replace(replicas=(*replicas[:number], replica, *replicas[number + 1 :]))


def refute(bounds: Bounds) -> tuple[tuple[str, ...], int]:
    """Return the shortest way to break the strong ISR property, and how many states were searched.

    The way is empty if the property holds within the bounds.
    """
    found = explore(
        initial(bounds),
        lambda state: successors(bounds, state),
        lambda state: [] if strong_isr(state) else ["weak"],
        until=["weak"],
    )
    return tuple(label for label, _ in found.traces.get("weak", ())), found.states
