"""The perturbations, each of which costs one of its budget."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof_model.adversary.bounds import AdversaryModel
from ackproof_model.adversary.metadata import Move, asked, committed, died
from ackproof_model.adversary.replicas import shrinks
from ackproof_model.adversary.state import (
    STOPPING,
    UP,
    Partition,
    Replica,
)
from ackproof_model.replication.controller import begin_shutdown, fence


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
    """Power loss: the log loses any suffix that was never fsynced (`LogLoader.recover`).

    The recovery point is at the start of the log: nothing was fsynced.
    """
    if replica.alive:
        least = replica.end if model.flush_every_record else 0
        for kept in range(least, replica.end + 1):
            for after in died(model, replica, replica.log[:kept]):
                yield ("lose power", number, kept), partition, after


def clean_stops(
    model: AdversaryModel, partition: Partition, replica: Replica, number: int
) -> Iterator[Move]:
    """SIGTERM: a controlled shutdown begins (KIP-143); it ends when the broker leads nothing.

    With ZooKeeper it also ends when nobody can lead in its place.
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


#: In the order of `bounds.PERTURBATIONS`.
KINDS = (kills, power_losses, clean_stops, lags, fencings)

#: Those that can depose a leader or end its process: all but `lags`.
DEPOSING = tuple(kind for kind, perturb in enumerate(KINDS) if perturb is not lags)

#: Those that read or change what the controller has committed.
OF_PARTITION = tuple(
    kind for kind, perturb in enumerate(KINDS) if perturb not in {kills, power_losses}
)
