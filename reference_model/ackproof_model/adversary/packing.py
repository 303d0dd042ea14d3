"""States packed into two integers.

The head has the controller, the writes and the remaining budgets. The tail has a number for each
broker: each distinct broker value gets a number when it first occurs (collapse compression, as in
SPIN), so a tail of three brokers fits into 60 bits. Each process has its own numbers.

Each rule runs once for each value of the parts that it reads. Its effect is stored as a difference
of head and tail, which is added to every state with those parts. A test compares this with
`successors`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from ackproof_model.adversary.moves import Move, moves, restart, writes
from ackproof_model.adversary.state import (
    LARGEST_EPOCH,
    AdversaryModel,
    Budgets,
    Writes,
)
from ackproof_model.adversary.successors import DEPOSING, KINDS, replaces_leader
from ackproof_model.replication.replica import fetch, forget
from ackproof_model.replication.state import UP, Assignment, Broker, Controller

#: Width of a broker's number in a tail, in bits.
BROKER_BITS = 20

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
        return self.model.brokers.bit_length()

    def _controller(self, controller: Controller) -> Fields:
        n = self.model.brokers
        yield controller.leader + 1, self._name
        yield controller.epoch, _EPOCH_BITS
        yield controller.version, _EPOCH_BITS
        yield controller.isr, n
        yield controller.elr, n
        yield controller.last_known + 1, self._name
        yield controller.fenced, n
        yield controller.stopping, n
        if self.model.moves:
            assignment = controller.assignment or Assignment(())
            yield len(assignment.replicas), self._name
            for at in range(n):
                yield sum(assignment.replicas[at : at + 1]), self._name
            yield assignment.adding, n
            yield assignment.removing, n

    def _writes(self, written: Writes) -> Fields:
        yield written.records, self.acked_at
        yield written.acked, self.model.budgets.records

    def controller(self, controller: Controller) -> int:
        return _joined(self._controller(controller))

    def writes(self, written: Writes) -> int:
        return _joined(self._writes(written))

    def head(self, controller: Controller, written: Writes, left: tuple[int, ...]) -> int:
        budgets = _joined((budget, _BUDGET_BITS) for budget in left)
        return (
            self.controller(controller)
            | self.writes(written) << self.writes_at
            | budgets << self.left_at
        )

    @cached_property
    def controller_bits(self) -> int:
        empty = Controller(0, 0, 0, 0, 0, 0, 0)
        return sum(width for _, width in self._controller(empty))

    @cached_property
    def acked_at(self) -> int:
        """Offset of the acked records in the writes."""
        return (self.model.budgets.records + 1).bit_length()

    @cached_property
    def writes_bits(self) -> int:
        return self.acked_at + self.model.budgets.records

    @cached_property
    def writes_at(self) -> int:
        return self.controller_bits

    @cached_property
    def left_at(self) -> int:
        return self.writes_at + self.writes_bits

    @cached_property
    def leader_mask(self) -> int:
        """Mask of the leader within a controller (0: no leader)."""
        return (1 << self._name) - 1

    @cached_property
    def term_bits(self) -> int:
        return self._name + _EPOCH_BITS

    def term(self, leader: int, epoch: int) -> int:
        """Return leader and leader epoch as the low bits of a controller."""
        return leader + 1 | epoch << self._name

    def read_controller(self, number: int) -> Controller:
        n, take = self.model.brokers, _Taker(number)
        leader, epoch, version = take(self._name) - 1, take(_EPOCH_BITS), take(_EPOCH_BITS)
        isr, elr, last = take(n), take(n), take(self._name) - 1
        controller = Controller(leader, epoch, isr, elr, last, take(n), take(n), version)
        if not self.model.moves:
            return controller
        count = take(self._name)
        replicas = tuple(take(self._name) for _ in range(n))[:count]
        return controller._replace(assignment=Assignment(replicas, take(n), take(n)))

    def read_writes(self, number: int) -> Writes:
        take = _Taker(number)
        return Writes(take(self.acked_at), take(self.model.budgets.records))

    def read_left(self, number: int) -> tuple[int, ...]:
        take = _Taker(number)
        return tuple(take(_BUDGET_BITS) for _ in range(len(Budgets.KINDS) + 1))

    def cost(self, kind: int) -> int:
        """Return what a perturbation of a kind subtracts from a head."""
        reduced = self.model.budgets.cost(kind)
        return sum(1 << self.left_at + at * _BUDGET_BITS for at in reduced)


class Brokers:
    """The values that brokers take, numbered.

    All lists are indexed by number. values: the brokers. leaders: the leader it knows plus 1 (0:
    none). terms: that with the leader epoch. logs: the records of its log. staying: whether it runs
    and does not stop.
    """

    def __init__(self, packing: Packing) -> None:
        self._packing = packing
        self._numbers: dict[Broker, int] = {}
        self.values: list[Broker] = []
        self.leaders: list[int] = []
        self.terms: list[int] = []
        self.logs: list[int] = []
        self.staying: list[bool] = []

    def of(self, broker: Broker) -> int:
        """Return the number of a broker's value; a new value gets a new number."""
        known = self._numbers.get(broker)
        if known is not None:
            return known
        number = self._numbers[broker] = len(self.values)
        if number >> BROKER_BITS:
            raise EpochOverflowError(f"more than {1 << BROKER_BITS} values of a broker")
        self.values.append(broker)
        self.leaders.append(broker.leader + 1)
        self.terms.append(self._packing.term(broker.leader, broker.epoch))
        self.logs.append(broker.records)
        self.staying.append(broker.status == UP)
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
    number, shift = 0, 0
    for value, width in fields:
        if value >> width:
            raise EpochOverflowError(f"{value} does not fit: epochs go to {LARGEST_EPOCH}")
        number |= value << shift
        shift += width
    return number


#: The difference of head and tail by a step.
Difference = tuple[int, int]

#: The differences in the tail by steps that leave the head unchanged; the other steps; the restart.
Steps = tuple[tuple[int, ...], tuple[Difference, ...], Difference | None]


class PackedSteps:
    """Runs the rules on parts of a packed state."""

    def __init__(self, packing: Packing, brokers: Brokers) -> None:
        self._packing = packing
        self._brokers = brokers
        self._model = packing.model
        self._controllers: dict[int, Controller] = {}
        self._written: dict[int, Writes] = {}

    def _controller(self, part: int) -> Controller:
        known = self._controllers.get(part)
        if known is None:
            known = self._controllers[part] = self._packing.read_controller(part)
        return known

    def _writes(self, written: int) -> Writes:
        known = self._written.get(written)
        if known is None:
            known = self._written[written] = self._packing.read_writes(written)
        return known

    def _tail(self, number: int, after: Broker, own: int) -> int:
        """Return the difference of the tail when broker `number` changes."""
        return self._brokers.of(after) - own << number * BROKER_BITS

    def _steps(
        self, moved: Iterable[Move], number: int, part: int, own: int, cost: int = 0
    ) -> Iterator[Difference]:
        before = self._controller(part)
        for _, controller, after in moved:
            head = 0 if controller == before else self._packing.controller(controller) - part
            yield head - cost, self._tail(number, after, own)

    def of_controller(self, number: int, part: int, own: int) -> Steps:
        """Return the free steps between controller and broker `number`.

        Its restart is separate: it changes the other brokers, too.
        """
        model, controller = self._model, self._controller(part)
        broker = self._brokers.values[own]
        moved = moves(model, controller, broker, number)
        same, other = _sorted(self._steps(moved, number, part, own))
        started = restart(model, controller, broker, number)
        return same, other, next(self._steps([started], number, part, own)) if started else None

    def of_perturbation(
        self, kind: int, number: int, part: int, own: int
    ) -> tuple[Difference, ...]:
        moved = KINDS[kind](self._model, self._controller(part), self._brokers.values[own], number)
        return tuple(self._steps(moved, number, part, own, self._packing.cost(kind)))

    def of_restart(self, number: int, own: int, restarted: int) -> int:
        after = forget(self._model.policy, self._brokers.values[own], restarted)
        return self._tail(number, after, own)

    def of_writes(
        self, number: int, own: int, written: int
    ) -> tuple[tuple[Difference, ...], tuple[Difference, ...]]:
        """Return the appends and the acks at leader `number`."""
        packing = self._packing
        broker, before = self._brokers.values[own], self._writes(written)
        appends: list[Difference] = []
        acks: list[Difference] = []
        for label, after, then in writes(self._model, broker, number, before):
            head = packing.writes(then) - written << packing.writes_at
            (acks if label[0] == "ack" else appends).append((head, self._tail(number, after, own)))
        return tuple(appends), tuple(acks)

    def of_fetch(self, number: int, own: int, source: int, other: int) -> int:
        """Return the difference of the tail by a fetch of broker `number` from `source`, or 0."""
        values = self._brokers.values
        fetched = fetch(self._model.policy, values[own], number, values[other], source)
        if fetched is None:
            return 0
        _, follower, leader = fetched
        return self._tail(number, follower, own) + self._tail(source, leader, other)

    def replaces_leader(self, part: int) -> bool:
        model = self._model
        asked = model.moves or model.balanced
        return asked and replaces_leader(model, self._controller(part))

    def kinds_left(self, left: int) -> tuple[tuple[int, ...], bool]:
        """Return the perturbations that have a budget left, and whether one can depose a leader."""
        *budgets, total = self._packing.read_left(left)
        free = self._model.budgets.free
        kinds = tuple(
            kind for kind, budget in enumerate(budgets) if free(kind) or (budget and total)
        )
        return kinds, any(kind in DEPOSING for kind in kinds)


def _sorted(steps: Iterable[Difference]) -> tuple[tuple[int, ...], tuple[Difference, ...]]:
    """Divide the steps into those that leave the head unchanged (their tails) and the others."""
    known = list(steps)
    return tuple(tail for head, tail in known if not head), tuple(one for one in known if one[0])
