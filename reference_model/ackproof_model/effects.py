"""What a fault does to a cluster and its clients: the vocabulary of faults and of the model.

Each fault declares its effects, which take place at once, in their order. An effect applies to the
nodes of the fault's target (brokers or controllers), unless its `nodes`, `topic` or `client` says
otherwise, and holds until the fault is healed, unless it says otherwise: a process that ended is
started, one that stalled continues, connections are restored, a setting gets its old value back.
Removed data and elections have nothing to undo. A fault without effects does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: replication: between brokers (with ZooKeeper, the controller is one of them); controllers:
#: between nodes and controllers (or ZooKeeper); clients: between brokers and clients.
Channel = Literal["replication", "controllers", "clients"]
CHANNELS: tuple[Channel, ...] = ("replication", "controllers", "clients")

#: targets: the nodes of the fault's target; others: all brokers except those; every: all brokers
#: and controllers.
Nodes = Literal["targets", "others", "every"]


#: What is left of a log: all (`kept`), what was fsynced and any prefix of the rest (`fsynced`), any
#: prefix (`prefix`), nothing (`empty`).
LogKept = Literal["kept", "fsynced", "prefix", "empty"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The nodes' processes end; healing starts them again.

    clean: by a controlled shutdown; otherwise by SIGKILL, after which the page cache survives.
    log: what the logs keep. partitions: the partitions (`orders-0`) whose logs are not kept, all if
    empty. log_dir: the only log directory that is not kept, counted from 1. renewed: a directory
    that lost its logs has a new id (KIP-858). times: how often each process ends. one_by_one: each
    node starts again before the next one ends; `in_sync`: and is in every ISR before. for_good:
    healing starts nothing. silent: connections are not closed.
    """

    clean: bool = False
    log: LogKept = "kept"
    partitions: tuple[str, ...] = ()
    log_dir: int | None = None
    renewed: bool = False
    times: int = 1
    one_by_one: Literal["", "started", "in_sync"] = ""
    for_good: bool = False
    silent: bool = False
    nodes: Nodes = "targets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """The nodes' processes stand still, and their connections stay open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """A new node joins, and stays."""

    controller: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """The nodes' channels are cut.

    direction: which packets are lost: all, those to the other side, or those from it; no connection
    survives either way. served: only connections to the nodes, by rules at the other side, so that
    the nodes still fetch from others. some: only the channels to some of the other side. repeated:
    the cut comes and goes. among: the nodes are cut off from each other, too. resets: connections
    are reset at once, instead of hanging.
    """

    channels: tuple[Channel, ...]
    direction: Literal["both", "to_peers", "from_peers"] = "both"
    served: bool = False
    some: bool = False
    repeated: bool = False
    among: bool = False
    resets: bool = False
    nodes: Nodes = "targets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resets:
    """Every open connection of the nodes is closed once; new ones are possible at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slows:
    """Everything that the nodes send arrives later; packets may have to be sent again.

    by: seconds for each packet, None if unknown: a limit on bandwidth, or a loss of packets.
    """

    by: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Intercepts:
    """Requests of one kind to the nodes, or their responses, are held, delayed, lost or repeated.

    api: Kafka's name of the request. action: `cut` closes the connection instead. by: seconds of a
    delay. client: a prefix of the client.id of those concerned, all if empty. count: at most so
    many messages.
    """

    api: str
    direction: Literal["request", "response"]
    action: Literal["hold", "delay", "drop", "duplicate", "cut"]
    by: float | None = None
    client: str = ""
    count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Removes:
    """All records of a topic are deleted, on all brokers and for good."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alters:
    """Bytes of stored records change at the nodes; healing changes them back.

    partitions: in these partitions only, in all if empty.
    """

    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetsBack:
    """The nodes' checkpoint files are older than their logs.

    high_watermarks, recovery_points: which of the files.
    """

    high_watermarks: bool
    recovery_points: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreachable:
    """A log directory of the nodes cannot be read or written; healing restarts the nodes cleanly.

    log_dir: counted from 1; None: all directories, so that the process ends uncleanly. later: not
    before the disk is full, that is maybe never.
    """

    log_dir: int | None
    later: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Configures:
    """A topic's setting has another value."""

    topic: str
    key: str
    value: str

    @property
    def min_insync_replicas(self) -> int | None:
        return int(self.value) if self.key == "min.insync.replicas" else None

    @property
    def unclean_leader_election(self) -> bool | None:
        unclean = self.key == "unclean.leader.election.enable"
        return self.value.lower() == "true" if unclean else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrades:
    """The nodes run another Kafka version (`version`), or a feature has another level; for good."""

    version: str = ""
    feature: str = ""
    level: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elects:
    """An election is requested: of the preferred leaders, or of any live replica (`unclean`).

    partition: None for all of the topic's.
    """

    topic: str
    partition: int | None
    unclean: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassigns:
    """Partitions move to other replicas, for good.

    topic: empty for every replica of the nodes. partition: None for all of the topic's. to: the
    new replicas, empty if the cluster's state decides. count: how many replicas there are
    afterwards, None for as many as before.
    """

    topic: str = ""
    partition: int | None = None
    to: tuple[int, ...] = ()
    count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddsPartitions:
    """The topic has more partitions from now on."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skews:
    """The nodes' clocks are ahead by so many seconds, or behind if negative."""

    by: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesQuorum:
    """The voters of the metadata quorum change for good; another controller may become active."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumLost:
    """The controllers have no majority: no fencing, election, registration or change of the ISR.

    No fault declares it; it follows from the controllers that a fault ends. A minority of
    controllers, or the active one alone, is no such effect: the others take over.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Clients of the run misbehave; no broker is touched.

    role: whose. action: `ends` by SIGKILL, or without a flush; `stalls` by SIGSTOP; `slows`: is
    busy after a poll; `purges_queue` discards what was not sent, `purges` also what is in flight;
    `fills`: its queue is full; `rejoins` its group at intervals; `misdates` its records. successor:
    another client takes its place meanwhile. by: seconds by which timestamps are wrong.
    """

    role: Literal["producer", "consumer"]
    action: Literal[
        "ends", "stalls", "slows", "purges_queue", "purges", "fills", "rejoins", "misdates"
    ]
    successor: bool = False
    by: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Anything:
    """Nobody knows: nothing is excluded."""


Effect = (
    Ends
    | Stalls
    | Starts
    | Cuts
    | Resets
    | Slows
    | Intercepts
    | Removes
    | Alters
    | SetsBack
    | Unreachable
    | Configures
    | Upgrades
    | Elects
    | Reassigns
    | AddsPartitions
    | Skews
    | ChangesQuorum
    | QuorumLost
    | Client
    | Anything
)
Effects = tuple[Effect, ...]
