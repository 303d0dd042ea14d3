"""All steps from a state: the readable specification.

`packed_steps` runs the same rules part by part, and remembers the effect of each.
"""

from __future__ import annotations

from collections.abc import Iterator

from ackproof_model.adversary.bounds import AdversaryModel
from ackproof_model.adversary.metadata import moves, restart
from ackproof_model.adversary.perturbations import KINDS
from ackproof_model.adversary.reduction import decided
from ackproof_model.adversary.replicas import fetch, forget, writes
from ackproof_model.adversary.state import (
    Label,
    Partition,
    Replica,
    State,
)
from ackproof_model.replication.state import NOBODY


def successors(model: AdversaryModel, state: State) -> Iterator[tuple[Label, State]]:
    """Yield every step from a state, as (label, state after it); see `reduction`."""
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
    """Return the acked records that the leader, once it knows that it leads, does not hold.

    Its followers truncate them: they are lost unless another perturbation comes before.
    """
    controller = state.partition.controller
    if controller.leader == NOBODY:
        return 0
    leader = state.replicas[controller.leader]
    if not leader.alive or (leader.leader, leader.epoch) != (controller.leader, controller.epoch):
        return 0
    return state.writes.acked & ~leader.records
