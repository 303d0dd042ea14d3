"""One state of a transactional.id: its coordinator, its producers, the logs, delayed requests.

Sets of partitions are bitmasks. All records are of one producer id.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from ackproof_model.kafka.producer_state import Verification
from ackproof_model.transactions.model import TransactionModel


class Txn(IntEnum):
    """The coordinator's states (`TransactionState`).

    `PrepareEpochFence` does not occur: fencing is one step.
    """

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6


PREPARED = (Txn.PREPARE_COMMIT, Txn.PREPARE_ABORT)


class Coordinator(NamedTuple):
    """The transaction's metadata (`TransactionMetadata`).

    partitions: those in the transaction; once prepared, those without a marker. term: the
    coordinator epoch.
    """

    state: Txn
    epoch: int
    partitions: int
    term: int


class Entry(NamedTuple):
    """A record, or a marker (`transaction` is -1).

    commit, term: a marker's outcome and coordinator epoch. zombie: a newer producer had begun when
    the record was appended.
    """

    transaction: int
    epoch: int
    sequence: int = 0
    commit: bool = False
    term: int = 0
    zombie: bool = False


class Partition(NamedTuple):
    """A log, and the verification in progress, which ends with the next append."""

    log: tuple[Entry, ...]
    verifying: Verification | None


class Phase(IntEnum):
    STARTING = 0
    IDLE = 1
    OPEN = 2
    COMMITTING = 3
    ABORTING = 4
    BUMPING = 5
    OVER = 6


class Producer(NamedTuple):
    """One producer with this transactional.id.

    transaction: the current one. added: partitions that the coordinator knows (protocol 1). sent:
    those with a record without response. acked: those with an acked record. sequences: the next
    sequence number of each partition. doomed: it can only abort. gave_up: a record failed without a
    response.
    """

    phase: Phase
    epoch: int
    transaction: int
    added: int
    sent: int
    acked: int
    sequences: tuple[int, ...]
    doomed: bool = False
    gave_up: bool = False


class Fate(IntEnum):
    """The outcome that the application knows; ZOMBIE: committed after a successor began."""

    OPEN = 0
    REQUESTED = 1
    COMMITTED = 2
    ZOMBIE = 3


class Outcome(NamedTuple):
    """A transaction as the application knows it: its fate, the partitions with acked records."""

    fate: Fate
    acked: int


class Message(NamedTuple):
    """A request.

    kind: add, produce, end, marker. producer: the sender, -1 for the coordinator. partition: of all
    but end. commit: of end and marker. guard: of produce, `NOT_YET` or the guard of its
    verification (`log.verified`).
    """

    kind: str
    producer: int
    epoch: int
    transaction: int = -1
    partition: int = -1
    sequence: int = 0
    commit: bool = False
    term: int = 0
    guard: int = 0


class State(NamedTuple):
    """One state of the search.

    logged: the transaction log, as far as the remaining budgets need it. left: what is
    left of the budgets.
    """

    coordinator: Coordinator
    logged: tuple[Coordinator, ...]
    partitions: tuple[Partition, ...]
    producers: tuple[Producer, ...]
    outcomes: tuple[Outcome, ...]
    flight: frozenset[Message]
    left: tuple[int, ...]

    @property
    def newest(self) -> int:
        begun = (n for n, one in enumerate(self.producers) if one.phase is not Phase.STARTING)
        return max(begun)


def idle(model: TransactionModel, epoch: int) -> Producer:
    sequences = (0,) * model.budgets.partitions
    return Producer(Phase.IDLE, epoch, -1, 0, 0, 0, sequences)


def initial(model: TransactionModel) -> State:
    """Return the initial state: the first producer has epoch 0."""
    coordinator = Coordinator(Txn.EMPTY, 0, 0, 0)
    return State(
        coordinator,
        (coordinator,),
        (Partition((), None),) * model.budgets.partitions,
        (idle(model, 0),),
        (),
        frozenset(),
        model.budgets.left,
    )
