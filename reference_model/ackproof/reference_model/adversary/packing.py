"""States as numbers, and every rule's effect on a part as a difference.

A state is one int: the partition, the replicas, the writes and the budgets left lie side by side.
A step changes few parts, and what it does to them depends on few parts. So each rule of
`successors` is run once for each value of the parts it reads, and what it did is kept as the
difference of two ints, to be added to any state with those parts (collapse compression, as in
SPIN). A test holds this against `successors`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ackproof.reference_model.adversary.bounds import LARGEST_EPOCH, PERTURBATIONS, Question
from ackproof.reference_model.adversary.metadata import moves, restart
from ackproof.reference_model.adversary.perturbations import DEPOSING, KINDS
from ackproof.reference_model.adversary.replicas import fetch, forget, writes
from ackproof.reference_model.adversary.state import Partition, Replica, State, Writes
from ackproof.reference_model.state import Controller

_EPOCH_BITS = 4
_BUDGET_BITS = 3

Fields = Iterator[tuple[int, int]]


class EpochOverflowError(RuntimeError):
    """More leader epochs or ISR changes than a packed state can tell apart."""


@dataclass(frozen=True)
class Packing:
    """How the states of one question lie in an int, from the lowest bit on."""

    question: Question

    @cached_property
    def _name(self) -> int:
        return self.question.replicas.bit_length()

    @cached_property
    def _offset(self) -> int:
        return (self.question.budgets.records + 1).bit_length()

    def _partition(self, partition: Partition) -> Fields:
        controller, n = partition.controller, self.question.replicas
        yield controller.leader + 1, self._name
        yield controller.epoch, _EPOCH_BITS
        yield partition.version, _EPOCH_BITS
        yield controller.isr, n
        yield controller.elr, n
        yield controller.last_known + 1, self._name
        yield controller.fenced, n
        yield controller.stopping, n

    def _replica(self, replica: Replica) -> Fields:
        n = self.question.replicas
        yield replica.leader + 1, self._name
        yield replica.epoch, _EPOCH_BITS
        yield replica.log, self.question.budgets.records
        yield replica.status, 2
        yield replica.clean, 1
        yield replica.hw, self._offset
        yield replica.version, _EPOCH_BITS
        yield replica.isr, n
        yield replica.pending, n
        yield replica.start, self._offset
        for end in replica.ends:
            yield end + 1, self._offset
        yield replica.stale, n

    def _writes(self, written: Writes) -> Fields:
        records = self.question.budgets.records
        yield len(written.epochs), self._offset
        for record in range(records):
            epoch = written.epochs[record] if record < len(written.epochs) else 0
            yield epoch, _EPOCH_BITS
        yield written.acked, records

    def partition(self, partition: Partition) -> int:
        """Return a partition as a number."""
        return _joined(self._partition(partition))

    def replica(self, replica: Replica) -> int:
        """Return a replica as a number."""
        return _joined(self._replica(replica))

    def writes(self, written: Writes) -> int:
        """Return what was written as a number."""
        return _joined(self._writes(written))

    def state(self, state: State) -> int:
        """Return a state as a number."""
        number = self.partition(state.partition)
        for place, replica in zip(self.replica_at, state.replicas, strict=True):
            number |= self.replica(replica) << place
        left = _joined((budget, _BUDGET_BITS) for budget in state.left)
        return number | self.writes(state.writes) << self.writes_at | left << self.left_at

    @cached_property
    def partition_bits(self) -> int:
        """How wide a partition is."""
        empty = Partition(Controller(0, 0, 0, 0, 0, 0, 0), 0)
        return sum(width for _, width in self._partition(empty))

    @cached_property
    def replica_bits(self) -> int:
        """How wide a replica is."""
        ends = (0,) * self.question.replicas
        empty = Replica(0, False, 0, 0, 0, 0, 0, 0, 0, 0, ends, 0)
        return sum(width for _, width in self._replica(empty))

    @cached_property
    def acked_at(self) -> int:
        """Where the acked records begin within what was written."""
        return self._offset + self.question.budgets.records * _EPOCH_BITS

    @cached_property
    def writes_bits(self) -> int:
        """How wide what was written is."""
        return self.acked_at + self.question.budgets.records

    @cached_property
    def replica_at(self) -> tuple[int, ...]:
        """Where each replica begins."""
        n = self.question.replicas
        return tuple(self.partition_bits + number * self.replica_bits for number in range(n))

    @cached_property
    def writes_at(self) -> int:
        """Where what was written begins."""
        return self.partition_bits + self.question.replicas * self.replica_bits

    @cached_property
    def left_at(self) -> int:
        """Where the budgets begin."""
        return self.writes_at + self.writes_bits

    @cached_property
    def bits(self) -> int:
        """How wide a state is."""
        return self.left_at + (len(PERTURBATIONS) + 1) * _BUDGET_BITS

    @cached_property
    def leader_mask(self) -> int:
        """Where the leader stands within a partition or a replica (0: nobody)."""
        return (1 << self._name) - 1

    @cached_property
    def term_bits(self) -> int:
        """How wide leader and leader epoch are together; a replica's log comes next."""
        return self._name + _EPOCH_BITS

    @cached_property
    def status_mask(self) -> int:
        """Where the status stands within a replica (0: DOWN)."""
        return 3 << self.term_bits + self.question.budgets.records

    def read_partition(self, number: int) -> Partition:
        """Return the partition of a number."""
        n, take = self.question.replicas, _Taker(number)
        leader, epoch, version = take(self._name) - 1, take(_EPOCH_BITS), take(_EPOCH_BITS)
        isr, elr, last = take(n), take(n), take(self._name) - 1
        return Partition(Controller(leader, epoch, isr, elr, last, take(n), take(n)), version)

    def read_replica(self, number: int) -> Replica:
        """Return the replica of a number."""
        n, take = self.question.replicas, _Taker(number)
        leader, epoch = take(self._name) - 1, take(_EPOCH_BITS)
        log, status, clean = take(self.question.budgets.records), take(2), bool(take(1))
        hw, version, isr, pending = take(self._offset), take(_EPOCH_BITS), take(n), take(n)
        start = take(self._offset)
        ends = tuple(take(self._offset) - 1 for _ in range(n))
        return Replica(
            status, clean, log, leader, epoch, hw, version, isr, pending, start, ends, take(n)
        )

    def read_writes(self, number: int) -> Writes:
        """Return what was written, of a number."""
        take, records = _Taker(number), self.question.budgets.records
        count = take(self._offset)
        epochs = [take(_EPOCH_BITS) for _ in range(records)]
        return Writes(tuple(epochs[:count]), take(records))

    def read_state(self, number: int) -> State:
        """Return the state of a number."""
        low = (1 << self.replica_bits) - 1
        replicas = tuple(self.read_replica(number >> place & low) for place in self.replica_at)
        return State(
            self.read_partition(number & (1 << self.partition_bits) - 1),
            replicas,
            self.read_writes(number >> self.writes_at & (1 << self.writes_bits) - 1),
            self.read_left(number >> self.left_at),
        )

    def read_left(self, number: int) -> tuple[int, ...]:
        """Return the budgets left of a number."""
        take = _Taker(number)
        return tuple(take(_BUDGET_BITS) for _ in range(len(PERTURBATIONS) + 1))

    def cost(self, kind: int) -> int:
        """Return what a perturbation of a kind takes from the budgets of a packed state."""
        return (
            1 << self.left_at + kind * _BUDGET_BITS
            | 1 << self.left_at + len(PERTURBATIONS) * _BUDGET_BITS
        )


class _Taker:
    """Takes fields from the low end of a number."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __call__(self, width: int) -> int:
        field = self._number & (1 << width) - 1
        self._number >>= width
        return field


def _joined(fields: Fields) -> int:
    number, place = 0, 0
    for value, width in fields:
        if value >> width:
            raise EpochOverflowError(f"{value} does not fit: epochs go to {LARGEST_EPOCH}")
        number |= value << place
        place += width
    return number


Differences = tuple[int, ...]


class Effects:
    """What the rules do to the parts of a packed state, as differences to add to it.

    The methods are asked once for each value of the parts; `explorer` remembers the answers.
    """

    def __init__(self, packing: Packing) -> None:
        self._packing = packing
        self._question = packing.question

    def of_controller(
        self, number: int, part: int, own: int, kinds: tuple[int, ...]
    ) -> tuple[Differences, int]:
        """Return what happens between controller and broker `number`, perturbations included.

        And the broker's restart (0 for none), which concerns the others, too.
        """
        question, packing = self._question, self._packing
        partition, replica = packing.read_partition(part), packing.read_replica(own)

        def difference(changed: Partition, after: Replica) -> int:
            return (packing.partition(changed) - part) + (
                packing.replica(after) - own << packing.replica_at[number]
            )

        free = tuple(
            difference(changed, after)
            for _, changed, after in moves(question, partition, replica, number)
        )
        perturbed = tuple(
            difference(changed, after) - packing.cost(kind)
            for kind in kinds
            for _, changed, after in KINDS[kind](question, partition, replica, number)
        )
        started = restart(question, partition, replica, number)
        return free + perturbed, difference(started[1], started[2]) if started else 0

    def of_restart(self, number: int, own: int, restarted: int) -> int:
        """Return what the restart of another broker changes in what broker `number` knows."""
        after = forget(self._question, self._packing.read_replica(own), restarted)
        return self._packing.replica(after) - own << self._packing.replica_at[number]

    def of_writes(self, number: int, own: int, written: int) -> tuple[Differences, Differences]:
        """Return the appends and the acks at leader `number`."""
        packing = self._packing
        replica, before = packing.read_replica(own), packing.read_writes(written)
        appends: list[int] = []
        acks: list[int] = []
        for label, after, then in writes(self._question, replica, number, before):
            (acks if label[0] == "ack" else appends).append(
                (packing.replica(after) - own << packing.replica_at[number])
                + (packing.writes(then) - written << packing.writes_at)
            )
        return tuple(appends), tuple(acks)

    def of_fetch(self, number: int, own: int, source: int, other: int, written: int) -> int:
        """Return what a fetch of broker `number` from `source` does, 0 for nothing."""
        packing = self._packing
        fetched = fetch(
            self._question,
            packing.read_replica(own),
            number,
            packing.read_replica(other),
            source,
            packing.read_writes(written).epochs,
        )
        if fetched is None:
            return 0
        _, fetcher, leader = fetched
        return (packing.replica(fetcher) - own << packing.replica_at[number]) + (
            packing.replica(leader) - other << packing.replica_at[source]
        )

    def kinds_left(self, left: int) -> tuple[tuple[int, ...], bool]:
        """Return the perturbations for which there is a budget left, and whether one deposes."""
        *budgets, total = self._packing.read_left(left)
        kinds = tuple(kind for kind, budget in enumerate(budgets) if budget and total)
        return kinds, any(kind in DEPOSING for kind in kinds)
