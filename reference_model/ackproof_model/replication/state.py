"""The state of one partition: its controller and its brokers.

Both are named tuples of numbers and tuples, so a state is hashable and cheap to copy. Sets of
replicas are bitmasks. Replicas are numbered in assignment order; 0 is the first leader.
"""

from __future__ import annotations

from typing import NamedTuple

NOBODY = -1
UNASSIGNED = -2

# Broker.status
DOWN, STARTING, UP, STOPPING = range(4)

# A log entry is a record and the leader epoch in which it was appended.
_RECORD_BITS = 4


def entry(epoch: int, record: int) -> int:
    return epoch << _RECORD_BITS | record


def epoch_of(log_entry: int) -> int:
    return log_entry >> _RECORD_BITS


def record_of(log_entry: int) -> int:
    return log_entry & (1 << _RECORD_BITS) - 1


Log = tuple[int, ...]


class Assignment(NamedTuple):
    """The replicas of a partition in their order; those that a reassignment adds and removes."""

    replicas: tuple[int, ...]
    adding: int = 0
    removing: int = 0


class Controller(NamedTuple):
    """The committed state of the partition and its brokers.

    epoch: the leader epoch. fenced, stopping (in controlled shutdown): brokers that may neither
    lead nor be in the ISR. last_known: the last known leader (KIP-966). version: stands for the
    partition epoch where requests are in flight (`Policy.in_flight`): it counts the changes since
    the leader learned of one. assignment: None if replicas never move; then every broker has one.
    """

    leader: int
    epoch: int
    isr: int
    elr: int
    last_known: int
    fenced: int
    stopping: int
    version: int = 0
    assignment: Assignment | None = None

    def assigned(self, broker: int) -> bool:
        """Whether a broker has a replica."""
        return self.assignment is None or broker in self.assignment.replicas


class Broker(NamedTuple):
    """One broker: its process, its replica's log, and the metadata that it knows.

    clean: it stopped by controlled shutdown, and ELR are on. leader, epoch: those that it knows.
    truncating: a follower that must truncate before it fetches (from 0.11 to 2.6). hw: the high
    watermark (followers have it before 2.0 only, when they truncate to it). The other fields have a
    meaning at the leader only. version, isr: the partition version and the ISR that it knows.
    pending: the ISR that it has requested (0: no request). start: the start offset of its epoch, 0
    once the high watermark has passed it. remote: the log end offset of each replica as of its last
    fetch (`NOBODY`: no fetch that counts, `UNASSIGNED`: it knows of no
    replica there). stale: the followers that have restarted since their last fetch, or since the
    request in flight was made.
    """

    status: int
    clean: bool
    log: Log
    leader: int
    epoch: int
    hw: int = 0
    version: int = 0
    isr: int = 0
    pending: int = 0
    start: int = 0
    remote: tuple[int, ...] = ()
    stale: int = 0
    truncating: bool = False

    @property
    def alive(self) -> bool:
        return self.status >= UP

    @property
    def maximal(self) -> int:
        """The maximal ISR: the ISR that it knows, and the replicas that it adds (KIP-497)."""
        return self.isr | self.pending

    @property
    def records(self) -> int:
        """The set of records in its log."""
        return sum(1 << record_of(one) for one in self.log)


#: A running broker without a replica.
WITHOUT_REPLICA = Broker(UP, False, (), NOBODY, 0)


def initial(replicas: int, *, spare: int | None = None) -> tuple[Controller, tuple[Broker, ...]]:
    """Return controller and brokers with a full ISR, leader 0 and empty logs.

    spare: how many more brokers there are, None if replicas never move.
    """
    everyone = (1 << replicas) - 1
    known = (NOBODY, *(0,) * (replicas - 1), *(UNASSIGNED,) * (spare or 0))
    leader = Broker(UP, False, (), 0, 0, isr=everyone, remote=known)
    followers = (Broker(UP, False, (), 0, 0),) * (replicas - 1)
    assignment = None if spare is None else Assignment(tuple(range(replicas)))
    controller = Controller(0, 0, everyone, 0, NOBODY, 0, 0, assignment=assignment)
    return controller, (leader, *followers, *(WITHOUT_REPLICA,) * (spare or 0))


# A step's name and its numbers: see `prediction.narrative`.
Label = tuple[str, *tuple[int, ...]]


_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def name(replica: int) -> str:
    """Return a replica's letter: A is the first leader, B is next in assignment order."""
    return _ALPHABET[replica] if replica < len(_ALPHABET) else f"replica {replica}"


def members(mask: int) -> list[int]:
    return [number for number in range(mask.bit_length()) if mask >> number & 1]
