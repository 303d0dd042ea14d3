"""All steps from a state: perturbations, which reduce their budget, and free steps.

This is the readable specification; `packing` runs the same rules fast. The search leaves out states
by four reductions; tests compare searches with and without them.

- Decided (`decided`): no budget but shrinks is left, the leader runs, no other broker believes that
  it leads, and the leader's log has every acked record. No step can depose that leader, no other
  broker can append or ack, and the leader does not truncate, so no loss follows.
- Ack first: where a record may be acked, that is the only step. An ack only adds an acked
  record, which excludes no loss. With several records, a shortest trace may have needless acks.
- No broker learns that there is no leader (`replicas.behind`): a broker that has not learned this
  can take every step that it could take otherwise.
- An epoch's start offset is dropped once the high watermark has passed it
  (`replicas.reached_start`), and state that no rule of the version reads is not stored.

There is no symmetry reduction: replicas are elected in assignment order (`controller`), so two
followers are not interchangeable.
"""

from __future__ import annotations

from collections.abc import Iterator

from ackproof_model.adversary.metadata import Move, asked, committed, died, moves, restart
from ackproof_model.adversary.replicas import fetch, forget, shrinks, writes
from ackproof_model.adversary.state import (
    STOPPING,
    UP,
    AdversaryModel,
    Label,
    Partition,
    Replica,
    State,
)
from ackproof_model.replication.controller import begin_shutdown, fence
from ackproof_model.replication.state import NOBODY


def kills(
    model: AdversaryModel, partition: Partition, replica: Replica, number: int
) -> Iterator[Move]:
    """SIGKILL: the page cache survives, so the log stays as appended."""
    if replica.alive:
        for after in died(model, replica, replica.log):
            yield ("kill", number), partition, after


def power_losses(
    model: AdversaryModel, partition: Partition, replica: Replica, number: int
) -> Iterator[Move]:
    """Power loss: the log loses any suffix (`LogLoader.recover`), because nothing was fsynced."""
    if replica.alive:
        least = replica.end if model.flush_every_record else 0
        for kept in range(least, replica.end + 1):
            for after in died(model, replica, replica.log[:kept]):
                yield ("lose power", number, kept), partition, after


def clean_stops(
    model: AdversaryModel, partition: Partition, replica: Replica, number: int
) -> Iterator[Move]:
    """SIGTERM: a controlled shutdown begins (KIP-143); it ends when the broker leads nothing.

    With ZooKeeper it also ends if no other broker can lead.
    """
    controller = partition.controller
    if replica.status == UP and not controller.fenced >> number & 1:
        after = committed(partition, begin_shutdown(model.policy, controller, number))
        yield ("stop", number), after, replica._replace(status=STOPPING)


def lags(
    model: AdversaryModel, partition: Partition, replica: Replica, number: int
) -> Iterator[Move]:
    """Lag: a leader asks the controller to remove a follower from the ISR."""
    for label, requested in shrinks(replica, number):
        yield from asked(model, partition, requested, number, label)


def fencings(
    model: AdversaryModel, partition: Partition, replica: Replica, number: int
) -> Iterator[Move]:
    """Lost session: the controller fences a running broker."""
    controller = partition.controller
    if replica.alive and not controller.fenced >> number & 1:
        yield (
            ("cut off", number),
            committed(partition, fence(model.policy, controller, number)),
            replica,
        )


#: In the order of `state.PERTURBATIONS`.
KINDS = (kills, power_losses, clean_stops, lags, fencings)

#: Those that can depose a leader or end its process: all but `lags`.
DEPOSING = tuple(kind for kind, perturb in enumerate(KINDS) if perturb is not lags)

#: Those that read or change what the controller has committed.
OF_PARTITION = tuple(
    kind for kind, perturb in enumerate(KINDS) if perturb not in {kills, power_losses}
)


def decided(state: State) -> bool:
    """Whether no loss can follow from a state."""
    leader = state.partition.controller.leader
    if leader == NOBODY or (state.left[-1] and any(state.left[kind] for kind in DEPOSING)):
        return False
    leading = state.replicas[leader]
    rivals = any(one.leader == n for n, one in enumerate(state.replicas) if n != leader)
    return leading.alive and not rivals and not state.writes.acked & ~leading.records


def successors(model: AdversaryModel, state: State) -> Iterator[tuple[Label, State]]:
    """Yield every step from a state, as (label, state after it)."""
    if model.reduction:
        if decided(state):
            return
        acks = [step for step in _writes(model, state) if step[0][0] == "ack"]
        if acks:
            yield acks[0]
            return
    yield from _writes(model, state)
    for number, replica in enumerate(state.replicas):
        yield from _with_controller(model, state, number, replica)
        source = replica.leader
        if source not in (NOBODY, number):
            leader = state.replicas[source]
            fetched = fetch(model, replica, number, leader, source, state.writes.epochs)
            if fetched is not None:
                label, follower, informed = fetched
                yield label, _with(state, {number: follower, source: informed})


def _writes(model: AdversaryModel, state: State) -> Iterator[tuple[Label, State]]:
    for number, replica in enumerate(state.replicas):
        for label, after, written in writes(model, replica, number, state.writes):
            yield label, _with(state, {number: after})._replace(writes=written)


def _with_controller(
    model: AdversaryModel, state: State, number: int, replica: Replica
) -> Iterator[tuple[Label, State]]:
    partition = state.partition
    for label, changed, after in moves(model, partition, replica, number):
        yield label, _with(state, {number: after}, changed)
    started = restart(model, partition, replica, number)
    if started is not None:
        label, changed, after = started
        others = {
            n: forget(model, one, number) for n, one in enumerate(state.replicas) if n != number
        }
        yield label, _with(state, {**others, number: after}, changed)
    for kind, perturb in enumerate(KINDS):
        if state.left[kind] and state.left[-1]:
            left = tuple(n - (k in {kind, len(KINDS)}) for k, n in enumerate(state.left))
            for label, changed, after in perturb(model, partition, replica, number):
                yield label, _with(state, {number: after}, changed)._replace(left=left)


def _with(state: State, changed: dict[int, Replica], partition: Partition | None = None) -> State:
    replicas = tuple(changed.get(n, one) for n, one in enumerate(state.replicas))
    return state._replace(replicas=replicas, partition=partition or state.partition)


def lost(state: State) -> int:
    """Return the acked records that are not in the log of a leader that knows that it leads.

    Its followers truncate them.
    """
    controller = state.partition.controller
    if controller.leader == NOBODY:
        return 0
    leader = state.replicas[controller.leader]
    if not leader.alive or (leader.leader, leader.epoch) != (controller.leader, controller.epoch):
        return 0
    return state.writes.acked & ~leader.records
