"""One state of the partition, its brokers, the producer and the schedule.

All parts are named tuples of numbers and tuples, so a state is hashable and cheap to copy. Sets of
replicas are bitmasks. Replicas are numbered in assignment order; 0 is the first leader.
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
    return epoch << _RECORD_BITS | record


def epoch_of(log_entry: int) -> int:
    return log_entry >> _RECORD_BITS


def record_of(log_entry: int) -> int:
    return log_entry & (1 << _RECORD_BITS) - 1


Log = tuple[int, ...]


class Controller(NamedTuple):
    """The committed state of the partition and its brokers.

    epoch: the leader epoch. fenced, stopping (in controlled shutdown): brokers that may neither
    lead nor be in the ISR. last_known: the last known leader (KIP-966). version: stands for the
    partition epoch where requests are in flight (`Policy.in_flight`): it counts the changes since
    the leader learned of one.
    """

    leader: int
    epoch: int
    isr: int
    elr: int
    last_known: int
    fenced: int
    stopping: int
    version: int = 0


class Broker(NamedTuple):
    """One broker: its process, its replica's log, and the metadata that it knows.

    clean: it stopped by controlled shutdown, and ELR are on. leader, epoch: those that it knows.
    truncating: a follower that must truncate before it fetches (from 0.11 to 2.6). hw: the high
    watermark (followers have it before 2.0 only, when they truncate to it). The other fields have a
    meaning at the leader only. version, isr: the partition version and the ISR that it knows.
    pending: the ISR that it has requested (0: no request). start: the start offset of its epoch, 0
    once the high watermark has passed it. remote: the log end offset of each replica as of its last
    fetch (-1: no fetch that counts). stale: the followers that have restarted since their last
    fetch, or since the request in flight was made.
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


def initial(replicas: int) -> tuple[Controller, tuple[Broker, ...]]:
    """Return controller and brokers with a full ISR, leader 0 and empty logs."""
    everyone = (1 << replicas) - 1
    leader = Broker(UP, False, (), 0, 0, isr=everyone, remote=(NOBODY, *(0,) * (replicas - 1)))
    followers = (Broker(UP, False, (), 0, 0),) * (replicas - 1)
    return Controller(0, 0, everyone, 0, NOBODY, 0, 0), (leader, *followers)


class Client(NamedTuple):
    """The clients.

    leader: the leader that the producer knows. status, retries: for each record its status and its
    retries left. read: the records that a consumer may have read and that may still be removed
    (see `reading`).
    """

    leader: int
    status: tuple[int, ...]
    retries: tuple[int, ...]
    read: int = 0


class Run(NamedTuple):
    """The progress of the schedule.

    injected: how many faults have begun. phase: how many of them are verified. healed: a bitmask of
    faults. over: the rest of the schedule can never begin. targets, leaders: for each fault the
    replicas that it hit, and the leader before it. alone: the final leader is the only broker left
    in the state (see `reduction`).
    """

    injected: int
    phase: int
    healed: int
    over: bool
    targets: tuple[int, ...]
    leaders: tuple[int, ...]
    alone: bool = False


class Harm(NamedTuple):
    """The impairments by the faults in force.

    cuts, own_cuts: for each broker the replicas that cannot fetch from it, by rules in their own
    network namespaces, and by rules in the broker's. stalled: brokers with a stalled process. away:
    brokers without a connection to the controllers. deaf, mute: brokers that receive no requests of
    clients, and whose responses are lost. settings: the faults that changed settings. quorum: the
    controllers have a majority.
    """

    cuts: tuple[int, ...]
    own_cuts: tuple[int, ...]
    stalled: int = 0
    away: int = 0
    deaf: int = 0
    mute: int = 0
    settings: int = 0
    quorum: bool = True

    def unreachable(self, source: int) -> int:
        """Return the replicas that cannot fetch from a broker."""
        return self.cuts[source] | self.own_cuts[source]

    def silent(self, source: int) -> int:
        """Return the replicas whose fetches from a broker are not answered while faults last."""
        if self.stalled >> source & 1:
            return -1
        return self.unreachable(source) | self.stalled

    def governed(self, number: int) -> bool:
        """Whether a broker's requests reach a controller that can commit."""
        return self.quorum and not (self.stalled | self.away) >> number & 1


class State(NamedTuple):
    controller: Controller
    brokers: tuple[Broker, ...]
    client: Client
    run: Run
    harm: Harm

    def with_broker(self, number: int, broker: Broker) -> State:
        brokers = self.brokers
        return State(
            self.controller,
            (*brokers[:number], broker, *brokers[number + 1 :]),
            self.client,
            self.run,
            self.harm,
        )

    def with_client(self, client: Client) -> State:
        return State(self.controller, self.brokers, client, self.run, self.harm)


# A step's name and its numbers: see `prediction.narrative`.
Label = tuple[str, *tuple[int, ...]]

# The timer of a step: its kind, and the faults that started it.
Timer = tuple[str, tuple[int, ...]]

Step = tuple[Label, State, Timer | None]


def members(mask: int) -> list[int]:
    return [number for number in range(mask.bit_length()) if mask >> number & 1]
