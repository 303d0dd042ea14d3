"""The steps of `successors` on packed states, as differences of head and tail.

A step reads and changes few parts of a state. So each rule is run once for each value of the parts
that it reads, and its effect is stored as the difference of head and tail, which is added to every
state with those parts. A test compares this with `successors`. `explorer` calls each method once
for each value and remembers the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ackproof_model.adversary.metadata import Move, moves, restart
from ackproof_model.adversary.packing import REPLICA_BITS, Packing, Replicas
from ackproof_model.adversary.perturbations import DEPOSING, KINDS
from ackproof_model.adversary.replicas import fetch, forget, writes
from ackproof_model.adversary.state import Partition, Replica, Writes

#: What a step adds to head and tail.
Difference = tuple[int, int]

#: What the steps that leave the head unchanged add to the tail; the other steps; the restart, if
#: there is one.
Steps = tuple[tuple[int, ...], tuple[Difference, ...], Difference | None]


class PackedSteps:
    """Runs the rules on parts of a packed state."""

    def __init__(self, packing: Packing, replicas: Replicas) -> None:
        self._packing = packing
        self._replicas = replicas
        self._model = packing.model
        self._partitions: dict[int, Partition] = {}
        self._written: dict[int, Writes] = {}

    def _partition(self, part: int) -> Partition:
        known = self._partitions.get(part)
        if known is None:
            known = self._partitions[part] = self._packing.read_partition(part)
        return known

    def _writes(self, written: int) -> Writes:
        known = self._written.get(written)
        if known is None:
            known = self._written[written] = self._packing.read_writes(written)
        return known

    def _tail(self, number: int, after: Replica, own: int) -> int:
        """Return the difference of the tail when broker `number` changes."""
        return self._replicas.of(after) - own << number * REPLICA_BITS

    def _steps(
        self, found: Iterable[Move], number: int, part: int, own: int, cost: int = 0
    ) -> Iterator[Difference]:
        before = self._partition(part)
        for _, partition, after in found:
            head = 0 if partition == before else self._packing.partition(partition) - part
            yield head - cost, self._tail(number, after, own)

    def of_controller(self, number: int, part: int, own: int) -> Steps:
        """Return the free steps between controller and broker `number`.

        Its restart is separate, since that changes the other replicas, too.
        """
        model, partition = self._model, self._partition(part)
        replica = self._replicas.values[own]
        found = moves(model, partition, replica, number)
        same, other = _sorted(self._steps(found, number, part, own))
        started = restart(model, partition, replica, number)
        return same, other, next(self._steps([started], number, part, own)) if started else None

    def of_perturbation(
        self, kind: int, number: int, part: int, own: int
    ) -> tuple[Difference, ...]:
        """Return what a kind of perturbation does to broker `number`."""
        found = KINDS[kind](self._model, self._partition(part), self._replicas.values[own], number)
        return tuple(self._steps(found, number, part, own, self._packing.cost(kind)))

    def of_restart(self, number: int, own: int, restarted: int) -> int:
        """Return the difference in broker `number` when broker `restarted` restarts."""
        after = forget(self._model, self._replicas.values[own], restarted)
        return self._tail(number, after, own)

    def of_writes(
        self, number: int, own: int, written: int
    ) -> tuple[tuple[Difference, ...], tuple[Difference, ...]]:
        """Return the appends and the acks at leader `number`."""
        packing = self._packing
        replica, before = self._replicas.values[own], self._writes(written)
        appends: list[Difference] = []
        acks: list[Difference] = []
        for label, after, then in writes(self._model, replica, number, before):
            head = packing.writes(then) - written << packing.writes_at
            (acks if label[0] == "ack" else appends).append((head, self._tail(number, after, own)))
        return tuple(appends), tuple(acks)

    def of_fetch(self, number: int, own: int, source: int, other: int, written: int) -> int:
        """Return what a fetch of broker `number` from `source` adds to the tail; 0 if nothing."""
        values = self._replicas.values
        epochs = self._writes(written).epochs
        fetched = fetch(self._model, values[own], number, values[other], source, epochs)
        if fetched is None:
            return 0
        _, fetcher, leader = fetched
        return self._tail(number, fetcher, own) + self._tail(source, leader, other)

    def kinds_left(self, left: int) -> tuple[tuple[int, ...], bool]:
        """Return the perturbations that have a budget left, and whether one can depose a leader."""
        *budgets, total = self._packing.read_left(left)
        kinds = tuple(kind for kind, budget in enumerate(budgets) if budget and total)
        return kinds, any(kind in DEPOSING for kind in kinds)


def _sorted(steps: Iterable[Difference]) -> tuple[tuple[int, ...], tuple[Difference, ...]]:
    """Return what the steps that leave the head unchanged add to the tail, and the others."""
    found = list(steps)
    return tuple(tail for head, tail in found if not head), tuple(one for one in found if one[0])
