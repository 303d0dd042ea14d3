"""One state of the partition, its brokers, the producer and the schedule.

All parts are named tuples of numbers and tuples, so that a state is hashable and cheap to copy.
Sets of replicas are bitmasks. Replicas are numbered in assignment order; 0 leads at first.
"""

from __future__ import annotations

from typing import NamedTuple

NOBODY = -1

# Broker.status
DOWN, STARTING, UP, STOPPING = range(4)

# Status of a record; FLYING and APPENDED are followed by one number for each broker.
UNSENT, WAITING, ACKED, DROPPED, FLYING = range(5)

# A log entry is a record and the leader epoch in which it was appended.
_RECORD_BITS = 4


def entry(epoch: int, record: int) -> int:
    """Return a log entry."""
    return epoch << _RECORD_BITS | record


def epoch_of(log_entry: int) -> int:
    """Return the leader epoch of a log entry."""
    return log_entry >> _RECORD_BITS


def record_of(log_entry: int) -> int:
    """Return the record of a log entry."""
    return log_entry & (1 << _RECORD_BITS) - 1


Log = tuple[int, ...]


class Controller(NamedTuple):
    """What the controller has committed about the partition and its brokers (KRaft).

    `epoch` is the leader epoch. `fenced` brokers may not lead or be in the ISR, neither may
    `stopping` ones (in controlled shutdown). `last_known` is the last known leader (KIP-966).
    """

    leader: int
    epoch: int
    isr: int
    elr: int
    last_known: int
    fenced: int
    stopping: int


class Broker(NamedTuple):
    """One broker: its process, its replica's log, and the metadata it has seen.

    `clean`: it was shut down by a controlled shutdown. `leader` and `epoch` are those it knows.
    What follows has meaning at the leader only: the ISR it knows, the maximal ISR, the offset at
    which its epoch began, the high watermark (kept for acks=all only) and the log end offsets of
    the others as of their last fetch (-1: none yet in this epoch).
    """

    status: int
    clean: bool
    log: Log
    leader: int
    epoch: int
    isr: int = 0
    maximal: int = 0
    start: int = 0
    hw: int = 0
    remote: tuple[int, ...] = ()

    @property
    def alive(self) -> bool:
        """Whether its process serves requests."""
        return self.status >= UP


class Client(NamedTuple):
    """The producer: the leader it knows, and for each record its status and its retries left."""

    leader: int
    status: tuple[int, ...]
    retries: tuple[int, ...]


class Run(NamedTuple):
    """Where the schedule stands.

    `injected` faults have begun, `phase` of them are verified. `healed` is a bitmask of faults.
    For each fault: the replicas it hit, and the leader before it. `cuts[b]` are the replicas
    whose connections to b's internal listener are dropped. `over`: the rest of the schedule can
    never begin.
    """

    injected: int
    phase: int
    healed: int
    over: bool
    targets: tuple[int, ...]
    leaders: tuple[int, ...]
    cuts: tuple[int, ...]


class State(NamedTuple):
    """Everything that changes."""

    controller: Controller
    brokers: tuple[Broker, ...]
    client: Client
    run: Run

    def with_broker(self, number: int, broker: Broker) -> State:
        """Return this state with one broker replaced."""
        brokers = self.brokers
        return State(
            self.controller,
            (*brokers[:number], broker, *brokers[number + 1 :]),
            self.client,
            self.run,
        )


# What a step is called, with its numbers: see `story`.
Label = tuple[str, *tuple[int, ...]]

# A step that only happens after some time: its kind, and the faults since which it counts.
Timer = tuple[str, tuple[int, ...]]

Step = tuple[Label, State, Timer | None]


def members(mask: int) -> list[int]:
    """Return the replicas in a bitmask, ascending."""
    return [number for number in range(mask.bit_length()) if mask >> number & 1]
