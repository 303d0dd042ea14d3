"""States packed into two integers.

The head holds the partition, the writes and the remaining budgets side by side. The tail holds a
small number for each replica. Replicas take few values, so each value gets a number when it first
occurs (collapse compression, as in SPIN): a tail of three replicas fits into 60 bits. Each process
numbers the values for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ackproof_model.adversary.bounds import LARGEST_EPOCH, PERTURBATIONS, AdversaryModel
from ackproof_model.adversary.state import Partition, Replica, Writes
from ackproof_model.replication.state import Controller

#: Width of a replica's number in a tail, in bits.
REPLICA_BITS = 20

_EPOCH_BITS = 4
_BUDGET_BITS = 3

Fields = Iterator[tuple[int, int]]


class EpochOverflowError(RuntimeError):
    """More leader epochs or ISR changes than a packed state can hold."""


@dataclass(frozen=True)
class Packing:
    """The layout of the parts of a state in an integer, from the lowest bit on."""

    model: AdversaryModel

    @cached_property
    def _name(self) -> int:
        return self.model.replicas.bit_length()

    @cached_property
    def _offset(self) -> int:
        return (self.model.budgets.records + 1).bit_length()

    def _partition(self, partition: Partition) -> Fields:
        controller, n = partition.controller, self.model.replicas
        yield controller.leader + 1, self._name
        yield controller.epoch, _EPOCH_BITS
        yield partition.version, _EPOCH_BITS
        yield controller.isr, n
        yield controller.elr, n
        yield controller.last_known + 1, self._name
        yield controller.fenced, n
        yield controller.stopping, n

    def _writes(self, written: Writes) -> Fields:
        records = self.model.budgets.records
        yield len(written.epochs), self._offset
        for record in range(records):
            epoch = written.epochs[record] if record < len(written.epochs) else 0
            yield epoch, _EPOCH_BITS
        yield written.acked, records

    def partition(self, partition: Partition) -> int:
        return _joined(self._partition(partition))

    def writes(self, written: Writes) -> int:
        return _joined(self._writes(written))

    def head(self, partition: Partition, written: Writes, left: tuple[int, ...]) -> int:
        budgets = _joined((budget, _BUDGET_BITS) for budget in left)
        return (
            self.partition(partition)
            | self.writes(written) << self.writes_at
            | budgets << self.left_at
        )

    @cached_property
    def partition_bits(self) -> int:
        empty = Partition(Controller(0, 0, 0, 0, 0, 0, 0), 0)
        return sum(width for _, width in self._partition(empty))

    @cached_property
    def acked_at(self) -> int:
        """Offset of the acked records within the writes."""
        return self._offset + self.model.budgets.records * _EPOCH_BITS

    @cached_property
    def writes_bits(self) -> int:
        return self.acked_at + self.model.budgets.records

    @cached_property
    def writes_at(self) -> int:
        return self.partition_bits

    @cached_property
    def left_at(self) -> int:
        return self.writes_at + self.writes_bits

    @cached_property
    def leader_mask(self) -> int:
        """Mask of the leader within a partition (0: no leader)."""
        return (1 << self._name) - 1

    @cached_property
    def term_bits(self) -> int:
        return self._name + _EPOCH_BITS

    def term(self, leader: int, epoch: int) -> int:
        """Return leader and leader epoch as the low end of a partition has them."""
        return leader + 1 | epoch << self._name

    def read_partition(self, number: int) -> Partition:
        n, take = self.model.replicas, _Taker(number)
        leader, epoch, version = take(self._name) - 1, take(_EPOCH_BITS), take(_EPOCH_BITS)
        isr, elr, last = take(n), take(n), take(self._name) - 1
        return Partition(Controller(leader, epoch, isr, elr, last, take(n), take(n)), version)

    def read_writes(self, number: int) -> Writes:
        take, records = _Taker(number), self.model.budgets.records
        count = take(self._offset)
        epochs = [take(_EPOCH_BITS) for _ in range(records)]
        return Writes(tuple(epochs[:count]), take(records))

    def read_left(self, number: int) -> tuple[int, ...]:
        take = _Taker(number)
        return tuple(take(_BUDGET_BITS) for _ in range(len(PERTURBATIONS) + 1))

    def cost(self, kind: int) -> int:
        """Return what a perturbation of a kind subtracts from a head."""
        return (
            1 << self.left_at + kind * _BUDGET_BITS
            | 1 << self.left_at + len(PERTURBATIONS) * _BUDGET_BITS
        )


class Replicas:
    """The values that replicas take, numbered.

    values: the replicas by number. The other lists, by the same number, hold what the inner loop
    reads: the leader it knows plus 1 (0: none), that with the leader epoch, the records of its log,
    whether it runs.
    """

    def __init__(self, packing: Packing) -> None:
        self._packing = packing
        self._numbers: dict[Replica, int] = {}
        self.values: list[Replica] = []
        self.leaders: list[int] = []
        self.terms: list[int] = []
        self.logs: list[int] = []
        self.living: list[bool] = []

    def of(self, replica: Replica) -> int:
        """Return the number of a replica's value; a new value gets a new number."""
        known = self._numbers.get(replica)
        if known is not None:
            return known
        number = self._numbers[replica] = len(self.values)
        if number >> REPLICA_BITS:
            raise EpochOverflowError(f"more than {1 << REPLICA_BITS} values of a replica")
        self.values.append(replica)
        self.leaders.append(replica.leader + 1)
        self.terms.append(self._packing.term(replica.leader, replica.epoch))
        self.logs.append(replica.records)
        self.living.append(replica.alive)
        return number


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
