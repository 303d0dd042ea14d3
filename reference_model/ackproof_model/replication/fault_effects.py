"""What a fault does to a partition, in the model's terms.

A fault is a tuple of effects, which take place at once, in their order, at the fault's targets. Its
healing undoes them: a process that ended is started, one that stalled continues, connections are
restored, a setting gets its old value back. Removed data and elections have nothing to undo.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: How much of a log is left: all that was appended, any prefix of it, or nothing.
Kept = Literal["all", "prefix", "nothing"]

#: The peers of a cut: other brokers (fetches), controllers (heartbeats, metadata, AlterPartition),
#: or clients.
Channel = Literal["replication", "controllers", "clients"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnds:
    """The targets' processes end.

    controlled: SIGTERM. The brokers shut down one after the other, each once it leads nothing; the
        fault is verified when all have ended. Otherwise SIGKILL, all at once.
    log: after SIGKILL the page cache survives, so the log keeps "all"; after a power loss it keeps
        any "prefix"; "nothing" is a replaced disk or a wiped log.
    """

    log: Kept = "all"
    controlled: bool = False


@dataclass(frozen=True, slots=True)
class ProcessStarts:
    """Targets whose process does not run are started."""


@dataclass(frozen=True, slots=True)
class ProcessStalls:
    """The targets' processes stand still (SIGSTOP, a paused container); connections stay open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelCut:
    """Packets between brokers and their peers are lost.

    fetches: which fetches between targets and other brokers are lost: those "from" the targets,
        those that the targets send ("by"), or "both". For replication only.
    among: the targets are cut off from each other, too. For replication only.
    packets: the lost packets, as the targets see them: "to" them, "from" them, or "both". For
        clients only: with "from", requests arrive and responses do not. A connection to a broker or
        a controller needs both ways.
    at: "targets", or "others": all brokers that are not targets. For controllers and clients.
    installed: whose network namespaces have the rules; a process that starts anew has a new
        namespace, so a cut ends when all ends that hold it have restarted. For replication only.
    """

    channel: Channel
    fetches: Literal["from", "by", "both"] = "both"
    among: bool = False
    packets: Literal["to", "from", "both"] = "both"
    at: Literal["targets", "others"] = "targets"
    installed: Literal["both", "others"] = "both"


@dataclass(frozen=True, slots=True)
class LogRemoved:
    """The targets' logs are deleted (`ProcessEnds.log` says it of processes that end by the fault).

    A stopped broker starts without them. A running one keeps its files open: it serves their data
    until its process ends.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChanges:
    """Settings of the topic change; None keeps the value."""

    min_insync_replicas: int | None = None
    unclean_leader_election: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionAsked:
    """An operator asks the controller for an election (`kafka-leader-election.sh`)."""

    kind: Literal["preferred", "unclean"]


@dataclass(frozen=True, slots=True)
class QuorumLost:
    """The controllers have no majority: no fencing, election, registration or change of the ISR.

    A minority of controllers, or the active one alone, is no effect: the others take over.
    """


Effect = (
    ProcessEnds
    | ProcessStarts
    | ProcessStalls
    | ChannelCut
    | LogRemoved
    | SettingChanges
    | ElectionAsked
    | QuorumLost
)
