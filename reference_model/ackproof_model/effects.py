"""Effects of faults on a cluster and its clients: the vocabulary of faults and of the model.

Each fault declares its effects, which begin at once, in their order. By default an effect applies
to the nodes of the fault's target (brokers or controllers) until the fault is healed: then an ended
process is started, a stalled process continues, connections are restored, a setting gets its old
value. Removed data and elections are not undone. A fault without effects does nothing.

Each effect has three meanings. `exact`: its effects in the exact search of a schedule.
`worst_case`: the most that it does to a partition, for the sum over a schedule in any order.
`disturbances`: its effects on coordinators and requests.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal

from ackproof_model.configuration import (
    DIRECTORY_IDS_SINCE,
    LEADER_EPOCHS_SINCE,
    Configuration,
    Profile,
)
from ackproof_model.kafka_settings import (
    CLEANUP_POLICY,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
)
from ackproof_model.perturbations import NOTHING, Counts, WorstCase
from ackproof_model.removal import LESS_THAN_A_DAY, Records, removals

#: Injecting, verifying and healing make a fault this much longer, seconds.
SLACK_S = 5.0

#: Interval of a broker's heartbeats (`broker.heartbeat.interval.ms`), seconds.
_HEARTBEAT_S = 2.0

_ANY_NUMBER = math.inf


#: replication: between brokers (with ZooKeeper, the controller is a broker); controllers: between
#: nodes and controllers (or ZooKeeper); clients: between brokers and clients.
Channel = Literal["replication", "controllers", "clients"]
CHANNELS: tuple[Channel, ...] = ("replication", "controllers", "clients")

#: targets: the nodes of the fault's target; others: all brokers except those; every: all brokers
#: and controllers.
Nodes = Literal["targets", "others", "every"]

#: The part of a log that remains: all (`kept`), the fsynced part and any prefix of the rest
#: (`fsynced`), any prefix (`prefix`), nothing (`empty`).
LogKept = Literal["kept", "fsynced", "prefix", "empty"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition, its cluster, and the producer that writes to it.

    assigned: the brokers of its replicas, the preferred leader first; empty if Kafka chooses them.
    request_timeout_s: of the producer. fsynced: every record is fsynced before its ack, during the
    whole run. other_ways: clients may reach a broker by another listener, or through the proxy.
    proxied: the proxy is between brokers. records: for what retention may remove.
    """

    topic: str
    number: int
    configuration: Configuration
    request_timeout_s: float
    assigned: tuple[int, ...] = ()
    fsynced: bool = False
    compacted: bool = False
    other_ways: bool = False
    proxied: bool = False
    records: Records = LESS_THAN_A_DAY

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"

    @property
    def replicas(self) -> int:
        return self.configuration.replication_factor

    @property
    def profile(self) -> Profile:
        return self.configuration.profile

    @property
    def version(self) -> tuple[int, ...]:
        return tuple(map(int, re.findall(r"\d+", self.configuration.kafka_version)))

    def is_among(self, topic: str, partition: int | None) -> bool:
        """Whether it is this partition of the topic; None stands for all."""
        return topic == self.topic and partition in (None, self.number)

    def is_named(self, partitions: tuple[str, ...]) -> bool:
        """Whether its name (`orders-0`) is listed; an empty list stands for every partition."""
        return not partitions or str(self) in partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """How a fault hits a partition.

    replicas: the most replicas that it hits. controllers: whether it hits controllers. lasts_s: its
    longest duration. impaired_s: the longest time for which replicas may be unable to reach each
    other, by this fault and those that it overlaps or follows. numbers: the brokers in the order in
    which the exact search numbers them; empty if it does not know them.
    """

    fault: str
    partition: Partition
    replicas: int
    controllers: bool
    lasts_s: float
    impaired_s: float
    numbers: tuple[int, ...] = ()

    @property
    def ends_sessions(self) -> bool:
        """Whether it may last longer than a broker's session without a heartbeat."""
        return self.lasts_s + SLACK_S >= self.partition.configuration.session_s - _HEARTBEAT_S

    @property
    def lags(self) -> bool:
        """Whether it may last longer than `replica.lag.time.max.ms`."""
        longest = max(self.lasts_s, self.impaired_s)
        return longest + SLACK_S >= self.partition.configuration.lag_time_s


class Disturbance(StrEnum):
    """A disturbance of a coordinator, or of a request.

    MOVES: a partition gets another leader, so a coordinator moves. DEPOSED: a broker that is no
    longer the coordinator still answers. UNANSWERED: a request is carried out at once or never, and
    its sender gets no response. LATE_…: the sender repeats a request, and it is carried out later:
    adding a partition to a transaction, a record, the end of a transaction, a commit of offsets, a
    marker.
    """

    MOVES = "moves"
    DEPOSED = "deposed"
    UNANSWERED = "unanswered"
    LATE_ADD = "late add"
    LATE_PRODUCE = "late produce"
    LATE_END = "late end"
    LATE_OFFSETS = "late offsets"
    LATE_MARKER = "late marker"


D = Disturbance

#: Requests of clients that may be late, and all requests that may be late.
CLIENTS_LATE = (D.LATE_ADD, D.LATE_PRODUCE, D.LATE_END, D.LATE_OFFSETS)
_LATE = (*CLIENTS_LATE, D.LATE_MARKER)

#: Brokers' sessions may end while no controller is active, or another becomes active.
_CONTROLLERS = WorstCase(counts=Counts(fencings=_ANY_NUMBER), unanswered=True, late=True)


class Effect:
    """An effect of a fault. The defaults are for effects that touch no broker."""

    __slots__ = ()

    #: Brokers run, but do not reach each other.
    impairs: ClassVar[bool] = False
    #: Followers may lag although they run.
    delays_fetches: ClassVar[bool] = False
    #: Requests may be lost or late, although both ends run.
    disturbs_requests: ClassVar[bool] = False
    # The answers below, for effects whose fields do not decide them.
    _closes_connections: ClassVar[bool] = False
    _holds_requests: ClassVar[bool] = False
    _silences_if_timed: ClassVar[bool] = False
    _disturbances: ClassVar[tuple[Disturbance, ...]] = ()

    @property
    def closes_connections(self) -> bool:
        """Whether clients' connections end, so that they repeat unanswered requests at once."""
        return self._closes_connections

    @property
    def only_absent(self) -> bool:
        """Whether the nodes only stop until the fault is healed, without loss of data."""
        return False

    @property
    def touches_producers(self) -> bool:
        """Whether it may have an effect on the records of producers."""
        return True

    @property
    def holds_requests(self) -> bool:
        """Whether a producer's request may wait for long while its connection stays open."""
        return self._holds_requests

    def silences(self, *, timed: bool) -> bool:
        """Whether producers may get no answer during the whole effect.

        timed: the fault has `heal_after`. If the controllers cannot reach the leader either, they
        replace it meanwhile.
        """
        return timed and self._silences_if_timed

    def exact(self, hit: Hit) -> tuple[Effect, ...] | None:
        """Return this effect on the partition, as effects that the exact search supports.

        Empty if it does not affect the partition's records; None if the search does not support it.
        An effect that disturbs requests is never left out.
        """
        return None if self.disturbs_requests or self.worst_case(hit) != NOTHING else ()

    def worst_case(self, hit: Hit) -> WorstCase:
        """Return the most that it may do to the partition."""
        return NOTHING

    def disturbances(self) -> tuple[Disturbance, ...]:
        """Return its possible effects on coordinators and requests, in any order and duration."""
        return self._disturbances


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends(Effect):
    """The nodes' processes end; healing starts them again.

    clean: by a controlled shutdown; otherwise by SIGKILL, after which the page cache survives.
    log: the part of the logs that remains. partitions: the partitions (`orders-0`) that lose logs,
    all if empty. log_dir: the only log directory that loses logs, counted from 1. renewed: a
    directory that lost its logs has a new id (KIP-858). times: how often each process ends.
    one_by_one: each node starts again before the next ends; `in_sync`: and is in every ISR.
    for_good: healing does not start the processes. silent: connections are not closed.
    """

    _closes_connections: ClassVar[bool] = True
    _silences_if_timed: ClassVar[bool] = True
    _disturbances: ClassVar[tuple[Disturbance, ...]] = (D.MOVES, D.UNANSWERED)

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

    @property
    def only_absent(self) -> bool:
        once = self.times == 1 and not (self.one_by_one or self.for_good or self.silent)
        return once and self.log == "kept"

    def exact(self, hit: Hit) -> tuple[Effect, ...] | None:
        partition = hit.partition
        if self.times > 1 or self.one_by_one or self.for_good or self.silent:
            return None
        if self.nodes == "every" and partition.profile.zookeeper:
            return None
        if self.log_dir is not None or (self.renewed and partition.version >= DIRECTORY_IDS_SINCE):
            # The directory is unknown, or its broker may lead only once it is assigned (KIP-858).
            return None
        quorum = (QuorumLost(),) if self.nodes == "every" else ()
        if self._keeps(partition):
            return (Ends(clean=self.clean), *quorum)
        return (Ends(log="empty" if self.log == "empty" else "prefix"), *quorum)

    @property
    def keeps_metadata(self) -> bool:
        """Whether controllers keep what they have committed: they fsync before that."""
        return self.log in ("kept", "fsynced")

    def _keeps(self, partition: Partition) -> bool:
        """Whether the partition's logs lose no acked record."""
        kept = self.log == "kept" or (self.log == "fsynced" and partition.fsynced)
        return kept or not partition.is_named(self.partitions)

    def worst_case(self, hit: Hit) -> WorstCase:
        partition = hit.partition
        number = (partition.replicas if self.nodes == "every" else hit.replicas) * self.times
        if not self._keeps(partition):
            counts = Counts(power_losses=number)
        else:
            counts = Counts(clean_stops=number) if self.clean else Counts(kills=number)
        in_turn = max(number - 1, 0) if self.one_by_one == "in_sync" else 0
        worst = WorstCase(counts=counts, in_turn=in_turn, renewed=self.renewed and number > 0)
        if not (hit.controllers or self.nodes == "every"):
            return worst
        if self.keeps_metadata:
            return worst.plus(_CONTROLLERS)
        return WorstCase(anything=f"{hit.fault} may remove what controllers have committed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls(Effect):
    """The nodes' processes stop temporarily, and their connections stay open."""

    _holds_requests: ClassVar[bool] = True
    _silences_if_timed: ClassVar[bool] = True
    _disturbances: ClassVar[tuple[Disturbance, ...]] = (D.MOVES, D.DEPOSED, D.UNANSWERED, *_LATE)
    impairs: ClassVar[bool] = True
    delays_fetches: ClassVar[bool] = True

    @property
    def only_absent(self) -> bool:
        return True

    def exact(self, hit: Hit) -> tuple[Effect, ...] | None:
        return (self,)

    def worst_case(self, hit: Hit) -> WorstCase:
        if hit.controllers:
            return _CONTROLLERS
        if not hit.replicas:
            return NOTHING
        counts = Counts(
            fencings=hit.replicas if hit.ends_sessions else 0,
            shrinks=hit.replicas * (hit.partition.replicas - 1) if hit.lags else 0,
        )
        return WorstCase(counts=counts, unanswered=True, late=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts(Effect):
    """A new node joins, and stays."""

    controller: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts(Effect):
    """The nodes' channels are cut.

    direction: which packets are lost: all, those to the other side, or those from it; in each case
    connections end. served: only connections to the nodes are cut, by rules at the other side, so
    that the nodes still fetch from others. some: only the channels to some of the other side.
    repeated: the cut is installed and removed repeatedly. among: the nodes are also cut off from
    each other. resets: connections are reset at once, instead of hanging.
    """

    impairs: ClassVar[bool] = True
    delays_fetches: ClassVar[bool] = True
    disturbs_requests: ClassVar[bool] = True

    channels: tuple[Channel, ...]
    direction: Literal["both", "to_peers", "from_peers"] = "both"
    served: bool = False
    some: bool = False
    repeated: bool = False
    among: bool = False
    resets: bool = False
    nodes: Nodes = "targets"

    @property
    def holds_requests(self) -> bool:
        return "clients" in self.channels

    def silences(self, *, timed: bool) -> bool:
        return "clients" in self.channels and "controllers" not in self.channels

    def exact(self, hit: Hit) -> tuple[Effect, ...] | None:
        """Return a cut for each channel, in both directions except for clients."""
        partition = hit.partition
        if self.some or self.repeated:
            return None
        if self.served:
            return (self,) if self.channels == ("replication",) else None
        if self.channels and partition.profile.zookeeper:
            return None  # the controller is a broker and uses the listener of replication
        cuts = [self._exact(channel, partition) for channel in self.channels]
        known = tuple(cut for cut in cuts if cut is not None)
        return known if len(known) == len(cuts) else None

    def _exact(self, channel: Channel, partition: Partition) -> Cuts | None:
        if self.nodes == "every" or (self.nodes == "others" and channel == "replication"):
            return None
        if channel == "replication":
            return Cuts(channels=(channel,), among=self.among)
        if channel == "controllers":
            return Cuts(channels=(channel,), nodes=self.nodes)
        if self.resets or partition.other_ways:
            return None  # a producer notices at once, or uses another listener
        return Cuts(channels=(channel,), nodes=self.nodes, direction=self.direction)

    def worst_case(self, hit: Hit) -> WorstCase:
        partition = hit.partition
        count = hit.replicas if self.nodes == "targets" else partition.replicas
        total = NOTHING
        if hit.controllers or ("controllers" in self.channels and self.repeated):
            total = _CONTROLLERS
        elif "controllers" in self.channels and hit.ends_sessions:
            total = WorstCase(counts=Counts(fencings=count))
        if "replication" in self.channels and partition.replicas > 1:
            shrinks = Counts(shrinks=_ANY_NUMBER if hit.lags else 0)
            waits = partition.configuration.acks == "all"
            total = total.plus(WorstCase(counts=shrinks, late=True, unanswered=waits))
        if "clients" in self.channels and count:
            total = total.plus(WorstCase(unanswered=True, late=True))
        return total

    def disturbances(self) -> tuple[Disturbance, ...]:
        """Return late requests, because lost packets are resent until the cut ends.

        Packets that the nodes send are not requests of clients, but may be markers.
        """
        disturbances: list[Disturbance] = []
        if "clients" in self.channels:
            disturbances += (D.UNANSWERED, *(CLIENTS_LATE if self.direction != "to_peers" else ()))
        if "controllers" in self.channels:
            disturbances += (D.MOVES, D.DEPOSED)
        if "replication" in self.channels:
            disturbances += (D.LATE_MARKER, D.LATE_PRODUCE)
        return tuple(disturbances)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resets(Effect):
    """Every open connection of the nodes is closed once; they can reconnect at once."""

    _closes_connections: ClassVar[bool] = True
    _disturbances: ClassVar[tuple[Disturbance, ...]] = (D.UNANSWERED,)
    disturbs_requests: ClassVar[bool] = True

    def worst_case(self, hit: Hit) -> WorstCase:
        return WorstCase(unanswered=bool(hit.replicas))


@dataclass(frozen=True, slots=True, kw_only=True)
class Slows(Effect):
    """All packets that the nodes send arrive later, or have to be sent again.

    by: seconds for each packet, None if unknown: a limit on bandwidth, or a loss of packets.
    """

    _holds_requests: ClassVar[bool] = True
    _silences_if_timed: ClassVar[bool] = True
    _disturbances: ClassVar[tuple[Disturbance, ...]] = (D.MOVES, D.DEPOSED, D.UNANSWERED, *_LATE)
    delays_fetches: ClassVar[bool] = True
    disturbs_requests: ClassVar[bool] = True

    by: float | None = None

    def worst_case(self, hit: Hit) -> WorstCase:
        if hit.controllers:
            return _CONTROLLERS
        if not hit.replicas:
            return NOTHING
        partition = hit.partition
        prompt = self.by is not None and self.by * 4 < partition.configuration.session_s
        answered = self.by is not None and self.by * 10 < partition.request_timeout_s
        counts = Counts(shrinks=_ANY_NUMBER, fencings=0 if prompt else _ANY_NUMBER)
        return WorstCase(counts=counts, unanswered=not answered, late=True)


#: Requests of consumers and their groups only.
_OF_GROUPS = frozenset(
    {
        *("ListOffsets", "OffsetCommit", "OffsetFetch"),
        *("JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup", "ConsumerGroupHeartbeat"),
        *("ShareGroupHeartbeat", "ShareFetch", "ShareAcknowledge"),
        *("InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState"),
    }
)
#: Requests of consumer groups, transactions and clients' metadata: replication does not use them.
_NOT_OF_REPLICATION = frozenset(
    {
        *_OF_GROUPS,
        *("FindCoordinator", "ApiVersions", "Metadata", "InitProducerId"),
        *("AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit"),
        *("WriteTxnMarkers", "AllocateProducerIds"),
    }
)
#: Requests between brokers and controllers without which a broker is fenced.
_SESSION = frozenset({"BrokerHeartbeat", "BrokerRegistration"})
#: Requests that brokers' sessions and the active controller depend on.
_OF_CONTROLLERS = _SESSION | {"Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "FetchSnapshot"}

#: The requests that may be late. AddPartitionsToTxn also delays a record: the leader verifies a
#: transaction with the coordinator before its first record (KIP-890).
_LATE_REQUESTS: Mapping[str, tuple[Disturbance, ...]] = {
    "AddPartitionsToTxn": (D.LATE_ADD, D.LATE_PRODUCE),
    "AddOffsetsToTxn": (D.LATE_ADD,),
    "Produce": (D.LATE_PRODUCE,),
    "TxnOffsetCommit": (D.LATE_PRODUCE,),
    "EndTxn": (D.LATE_END,),
    "OffsetCommit": (D.LATE_OFFSETS,),
    "WriteTxnMarkers": (D.LATE_MARKER,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Intercepts(Effect):
    """Requests of one kind to the nodes, or their responses, are held, delayed, lost or repeated.

    api: Kafka's name of the request. action: `cut` closes the connection instead; `error` makes the
    sender repeat a request, or give up. by: seconds of a delay. client: a prefix of the client.id,
    all clients if empty. count: the most messages. error: its name, for that action. denies: the
    error says that a request was refused, although it was carried out.
    """

    delays_fetches: ClassVar[bool] = True
    disturbs_requests: ClassVar[bool] = True

    api: str
    direction: Literal["request", "response"]
    action: Literal["hold", "delay", "drop", "duplicate", "cut", "error"]
    by: float | None = None
    client: str = ""
    count: int | None = None
    error: str = ""
    denies: bool = False

    @property
    def closes_connections(self) -> bool:
        return self.action in ("cut", "error")

    @property
    def refuses_sends(self) -> bool:
        return self.api == "Produce" and self.direction == "request" and self.action == "error"

    @property
    def holds_requests(self) -> bool:
        held = self.direction == "request" and self.action in ("hold", "delay")
        return self.api == "Produce" and held

    def silences(self, *, timed: bool) -> bool:
        return timed and self.api == "Produce"

    def exact(self, hit: Hit) -> tuple[Effect, ...] | None:
        if self.api in _OF_GROUPS:
            return ()
        if self.action not in ("hold", "delay") or hit.partition.profile.zookeeper:
            return None
        if self.api == "AlterPartition" and self.direction == "request":
            return (LateIsrChanges(),)
        if self.api != "Fetch":
            return None
        return self._late_metadata(hit) if hit.controllers else self._late_fetches(hit)

    def _late_fetches(self, hit: Hit) -> tuple[Effect, ...] | None:
        """Return the late fetches of replicas; their `client.id` is `broker-2-fetcher-0`."""
        if not hit.partition.proxied:
            return None
        late = self._numbers_of(hit, "broker-{}-fetcher-0")
        return (LateFetches(followers=late, held=self._holds_all(hit, late)),) if late else None

    def _holds_all(self, hit: Hit, followers: tuple[int, ...]) -> bool:
        """Whether it holds every request of these followers' fetchers."""
        fetchers = (f"broker-{hit.numbers[one]}-fetcher-" for one in followers)
        every = all(prefix.startswith(self.client) for prefix in fetchers)
        held = self.action == "hold" and self.direction == "request"
        return every and held and self.count is None

    def _late_metadata(self, hit: Hit) -> tuple[Effect, ...] | None:
        """Return the late metadata of brokers, unless other controllers may be meant, too."""
        late = self._numbers_of(hit, "raft-client-{}")
        return (LateMetadata(brokers=late),) if late and self.client.startswith("raft-") else None

    def _numbers_of(self, hit: Hit, client_id: str) -> tuple[int, ...]:
        ids = (client_id.format(broker) for broker in hit.numbers)
        return tuple(n for n, name in enumerate(ids) if name.startswith(self.client))

    def worst_case(self, hit: Hit) -> WorstCase:
        if self.api in _NOT_OF_REPLICATION:
            return NOTHING
        if self.api in _OF_CONTROLLERS or hit.controllers:
            return _CONTROLLERS
        if self.api == "Produce":
            twice = self.action == "duplicate"
            repeated = twice and self.direction == "request"
            late = self.action in ("hold", "delay")
            return WorstCase(repeated=repeated, unanswered=not twice, late=late, denied=self.denies)
        if not hit.partition.proxied:  # only consumers use this listener
            return NOTHING
        late = self.action not in ("drop", "cut")
        return WorstCase(counts=Counts(shrinks=_ANY_NUMBER), unanswered=True, late=late)

    def disturbances(self) -> tuple[Disturbance, ...]:
        at_once = (*((D.MOVES, D.DEPOSED) if self.api in _SESSION else ()), D.UNANSWERED)
        if self.direction == "response" or self.action in ("drop", "cut"):
            return at_once
        late = _LATE_REQUESTS.get(self.api, ())
        if self.action == "hold":  # with everything behind it on its connection
            behind = (D.LATE_MARKER,) if late == (D.LATE_MARKER,) else CLIENTS_LATE
            late = behind if late else _LATE
        return (*at_once, *late)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removes(Effect):
    """All records of a topic are deleted, on all brokers and for good."""

    topic: str

    def worst_case(self, hit: Hit) -> WorstCase:
        if self.topic != hit.partition.topic:
            return NOTHING
        return WorstCase(removed=True, emptied=True, unanswered=True, late=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alters(Effect):
    """Bytes of stored records change at the nodes; healing changes them back.

    partitions: only these partitions, all if empty.
    """

    _disturbances: ClassVar[tuple[Disturbance, ...]] = (D.MOVES,)

    partitions: tuple[str, ...] = ()

    def worst_case(self, hit: Hit) -> WorstCase:
        return WorstCase(altered=bool(hit.replicas) and hit.partition.is_named(self.partitions))


@dataclass(frozen=True, slots=True, kw_only=True)
class SetsBack(Effect):
    """The nodes' checkpoint files are older than their logs.

    high_watermarks, recovery_points: the files. Recovery reads the whole log again. Before 0.11 a
    follower truncates to its high watermark, so it loses its log.
    """

    _disturbances: ClassVar[tuple[Disturbance, ...]] = (D.MOVES,)

    high_watermarks: bool
    recovery_points: bool

    def exact(self, hit: Hit) -> tuple[Effect, ...] | None:
        marks = self.high_watermarks and hit.partition.profile.keeps_high_watermark
        return None if marks else ()

    def worst_case(self, hit: Hit) -> WorstCase:
        if self.high_watermarks and hit.partition.version < LEADER_EPOCHS_SINCE:
            return WorstCase(counts=Counts(power_losses=hit.replicas))
        return NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreachable(Effect):
    """A log directory of the nodes cannot be read or written; healing restarts the nodes cleanly.

    log_dir: counted from 1; None: all directories, so that the process ends uncleanly. later: when
    the disk is full, which may never happen.
    """

    _closes_connections: ClassVar[bool] = True
    _silences_if_timed: ClassVar[bool] = True
    _disturbances: ClassVar[tuple[Disturbance, ...]] = (D.MOVES, D.UNANSWERED)

    log_dir: int | None
    later: bool = False

    def worst_case(self, hit: Hit) -> WorstCase:
        """Return an unclean end of the replicas, and the restart at healing."""
        count = hit.replicas
        return WorstCase(counts=Counts(kills=count, clean_stops=count))


#: Topic settings that cannot remove or rewrite an acked record while retention is off.
_HARMLESS = (
    *("flush.", "segment.", "compression.", "max.message.bytes", "message.timestamp.", "index."),
    *("retention.", "file.delete.delay.ms", "preallocate"),
    *("leader.replication.", "follower.replication."),
)
_COMPACTING = (CLEANUP_POLICY, "delete.retention.", "min.cleanable.", "max.compaction.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Configures(Effect):
    """A topic's setting has another value."""

    topic: str
    key: str
    value: str

    @property
    def min_insync_replicas(self) -> int | None:
        return int(self.value) if self.key == MIN_INSYNC_REPLICAS else None

    @property
    def unclean_leader_election(self) -> bool | None:
        unclean = self.key == UNCLEAN_LEADER_ELECTION_ENABLE
        return self.value.lower() == "true" if unclean else None

    def _harmless(self, partition: Partition) -> bool:
        """Whether the new setting cannot remove or rewrite acked records."""
        if self.topic != partition.topic:
            return True
        if self.key.startswith(_COMPACTING):
            return not partition.compacted and "compact" not in self.value.lower()
        removing = removals({self.key: self.value}, partition.records)
        return self.key.startswith(_HARMLESS) and not any(removing)

    def exact(self, hit: Hit) -> tuple[Effect, ...] | None:
        if self._harmless(hit.partition):
            return ()
        searched = (MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE)
        return (self,) if self.key in searched else None

    def worst_case(self, hit: Hit) -> WorstCase:
        if self._harmless(hit.partition):
            return NOTHING
        if (least := self.min_insync_replicas) is not None:
            return WorstCase(lowered=least, unanswered=True)
        if (unclean := self.unclean_leader_election) is not None:
            return WorstCase(unclean_set=unclean)
        if self.key.startswith((*_COMPACTING, "retention.")):
            return WorstCase(rewritten=True)
        return WorstCase(anything=f"the model does not know what {self.key}={self.value} does")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrades(Effect):
    """The nodes run another Kafka `version`, or a feature has another level, also after healing."""

    _closes_connections: ClassVar[bool] = True
    _disturbances: ClassVar[tuple[Disturbance, ...]] = (D.MOVES, D.UNANSWERED)

    version: str = ""
    feature: str = ""
    level: str = ""

    def worst_case(self, hit: Hit) -> WorstCase:
        if self.version:
            return WorstCase(versions=(self.version,))
        if self.feature == ELIGIBLE_LEADER_REPLICAS_VERSION:
            return WorstCase(elr=(self.level != "0",))
        return NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Elects(Effect):
    """An election is requested: of the preferred leaders, or of any live replica (`unclean`).

    partition: None for all partitions of the topic.
    """

    _disturbances: ClassVar[tuple[Disturbance, ...]] = (D.MOVES, D.UNANSWERED)

    topic: str
    partition: int | None
    unclean: bool

    def exact(self, hit: Hit) -> tuple[Effect, ...] | None:
        return (self,) if hit.partition.is_among(self.topic, self.partition) else ()

    def worst_case(self, hit: Hit) -> WorstCase:
        if not hit.partition.is_among(self.topic, self.partition):
            return NOTHING
        if self.unclean:
            return WorstCase(unclean=True, unanswered=True)
        return WorstCase(counts=Counts(leader_moves=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassigns(Effect):
    """Partitions move to other replicas, for good.

    topic: empty for every replica of the nodes. partition: None for all partitions of the topic.
    to: the new replicas, empty if the cluster's state decides. count: the new replication factor,
    None if it does not change. cancels: moves in progress are cancelled.
    """

    _disturbances: ClassVar[tuple[Disturbance, ...]] = (D.MOVES, D.UNANSWERED)

    topic: str = ""
    partition: int | None = None
    to: tuple[int, ...] = ()
    count: int | None = None
    cancels: bool = False

    def may_move(self, partition: Partition) -> bool:
        """Whether replicas may move: another order only changes the preferred leader."""
        here = not self.topic or partition.is_among(self.topic, self.partition)
        return here and not (self.to and set(self.to) == set(partition.assigned))

    def exact(self, hit: Hit) -> tuple[Effect, ...] | None:
        """Return the move with the replicas' numbers, if they are known and enough to write to."""
        partition = hit.partition
        if self.topic and not partition.is_among(self.topic, self.partition):
            return ()
        known = self.to and set(self.to) <= set(hit.numbers)
        least = partition.configuration.min_insync_replicas
        few = min(partition.replicas, len(self.to)) < least
        if not known or few or partition.profile.zookeeper:
            return None
        return (Reassigns(to=tuple(map(hit.numbers.index, self.to))),)

    def worst_case(self, hit: Hit) -> WorstCase:
        partition = hit.partition
        if not (partition.is_among(self.topic, self.partition) if self.topic else hit.replicas):
            return NOTHING
        moves = int(self.may_move(partition))
        counts = Counts(leader_moves=moves, shrinks=moves)
        fewest = (len(self.to) or self.count) if moves else None
        return WorstCase(
            counts=counts, moves=moves, cancelled=self.cancels, fewest=fewest, unanswered=True
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AddsPartitions(Effect):
    """The topic has this greater number of partitions from now on."""

    topic: str
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetsOffsets(Effect):
    """A group goes on at other offsets; no broker's log changes.

    to: an offset, or None if the group has none afterwards.
    """

    group: str
    to: int | Literal["earliest", "latest"] | None

    @property
    def touches_producers(self) -> bool:
        return False

    def goes_back(self, *, reset: str) -> bool:
        """Whether the group may get records again; `reset`: where it begins without offsets."""
        return (reset if self.to is None else self.to) != "latest"

    def skips(self, *, reset: str) -> bool:
        """Whether the group may pass over records that it did not get."""
        return (reset if self.to is None else self.to) not in ("earliest", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skews(Effect):
    """The nodes' clocks are ahead by this many seconds, or behind if negative."""

    _disturbances: ClassVar[tuple[Disturbance, ...]] = (D.MOVES, D.DEPOSED)

    by: float

    def worst_case(self, hit: Hit) -> WorstCase:
        """Return ISR shrinks and timeouts of brokers' requests, after a clock jump."""
        counts = Counts(shrinks=_ANY_NUMBER, fencings=_ANY_NUMBER)
        return WorstCase(counts=counts, unanswered=True, late=True) if hit.replicas else NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesQuorum(Effect):
    """The voters of the metadata quorum change; another controller may become active."""

    def worst_case(self, hit: Hit) -> WorstCase:
        return _CONTROLLERS


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumLost(Effect):
    """The controllers have no majority: no fencing, election, registration or change of the ISR.

    Faults do not declare it; the prediction derives it from the controllers that a fault ends. If
    a minority ends, or only the active controller, the others take over.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class LateFetches(Effect):
    """What these replicas, by their numbers, fetch from the nodes may be late for any time.

    Faults do not declare it; the prediction derives it from held requests and responses. held: no
    request arrives before the fault is healed, but for one that is on its way when it begins.
    """

    followers: tuple[int, ...]
    held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LateMetadata(Effect):
    """These brokers, by their numbers, may apply metadata late, for any time.

    Faults do not declare it; the prediction derives it from requests that controllers do not get.
    Heartbeats and AlterPartition have connections of their own.
    """

    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LateIsrChanges(Effect):
    """The controllers may get the requests of leaders to change the ISR late, by any time.

    Faults do not declare it; the prediction derives it from requests that controllers do not get.
    """


ClientAction = Literal[
    "ends", "stalls", "slows", "purges_queue", "purges", "fills", "rejoins", "misdates"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Client(Effect):
    """Clients of the run misbehave; no broker is touched.

    action: `ends` by SIGKILL, or without a flush; `stalls` by SIGSTOP; `slows`: is busy after a
    poll; `purges_queue` discards unsent records, `purges` also those in flight; `fills` its queue;
    `rejoins` its group at intervals; `misdates` its records. successor: another client replaces it
    meanwhile. by: seconds by which timestamps are wrong, or for which it is busy.
    """

    role: Literal["producer", "consumer"]
    action: ClientAction
    successor: bool = False
    by: float = 0.0

    @property
    def touches_producers(self) -> bool:
        return self.role == "producer"

    def worst_case(self, hit: Hit) -> WorstCase:
        if self.role == "consumer":
            return NOTHING
        # With acks=0, acked records may still be in the queue of a process that ends.
        ends = self.action == "ends" and hit.partition.configuration.acks == "0"
        return WorstCase(unanswered=ends or self.action == "stalls")


@dataclass(frozen=True, slots=True, kw_only=True)
class Anything(Effect):
    """The effects are unknown, so no anomaly is excluded."""

    _closes_connections: ClassVar[bool] = True
    _disturbances: ClassVar[tuple[Disturbance, ...]] = tuple(Disturbance)

    def worst_case(self, hit: Hit) -> WorstCase:
        return WorstCase(anything=f"{hit.fault} may do anything")


Effects = tuple[Effect, ...]
