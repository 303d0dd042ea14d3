"""One state of a search: the partition, its brokers, the clients and the schedule.

All parts are named tuples of numbers and tuples, so a state is hashable and cheap to copy. Sets of
replicas and of faults are bitmasks.
"""

from __future__ import annotations

from typing import NamedTuple

from ackproof_model.replication.state import Broker, Controller, Label

# Status of a record; FLYING and APPENDED are followed by one number for each broker.
UNSENT, WAITING, ACKED, DROPPED, FLYING = range(5)


class Client(NamedTuple):
    """The clients.

    leader: the leader that the producer knows. status, retries: for each record its status and its
    retries left. read: the records that a consumer may have read and that may still be removed
    (see `consumer`).
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


# A part of the schedule: how many faults were injected, which are healed, and whether the rest can
# never begin.
Layer = tuple[int, int, bool]

# The timer of a step: its kind, and the faults that started it.
Timer = tuple[str, tuple[int, ...]]

Step = tuple[Label, State, Timer | None]
