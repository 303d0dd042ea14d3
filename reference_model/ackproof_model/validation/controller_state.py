"""The state of a controller, built from its metadata log, record by record.

It has partitions, brokers, features and the settings of elections; other records are ignored. The
records are those of `__cluster_metadata`, as Kafka's `DumpLogSegments` prints them in JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ackproof_model.kafka import partition_change as pc
from ackproof_model.kafka.partition_change import (
    Change,
    Cluster,
    ControllerRules,
    Registration,
)
from ackproof_model.kafka_settings import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
)
from ackproof_model.replication.policy import effective_min_isr

PartitionId = tuple[str, int]
"""Topic id and partition number."""

_TOPIC, _BROKER = 2, 4  # org.apache.kafka.common.config.ConfigResource.Type
_DEFAULTS = {MIN_INSYNC_REPLICAS: "1", UNCLEAN_LEADER_ELECTION_ENABLE: "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRecord:
    """One record of the metadata log.

    kind: Kafka's MetadataRecordType, such as PARTITION_CHANGE_RECORD. snapshot: the record is part
    of a snapshot, the state that the earlier part of the log led to.
    """

    offset: int
    kind: str
    data: Mapping[str, Any]
    snapshot: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A broker's registration (`BrokerRegistration`)."""

    epoch: int
    incarnation: str
    fenced: bool
    stopping: bool
    directories: tuple[str, ...]

    @property
    def active(self) -> bool:
        """Whether it is neither fenced nor in controlled shutdown (`isActive`)."""
        return not self.fenced and not self.stopping

    def online(self, directory: str) -> bool:
        """Whether this log directory is online (`DirectoryId.isOnline`)."""
        if directory in (pc.UNASSIGNED, pc.MIGRATING):
            return True
        return directory != pc.LOST and (not self.directories or directory in self.directories)


class LogError(ValueError):
    """A record that names a partition, topic or broker that does not exist."""


class ControllerState:
    """The state of a controller of one Kafka version after the records applied so far."""

    def __init__(self, rules: ControllerRules) -> None:
        self.rules = rules
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, str] = {}
        self.partitions: dict[PartitionId, Registration] = {}
        self._features: dict[str, int] = {}
        self._settings: dict[tuple[int, str, str], str] = {}

    @property
    def elr(self) -> bool:
        """Whether eligible leader replicas are on (`FeatureControlManager.isElrFeatureEnabled`)."""
        return self._features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0

    def cluster(
        self, partition: PartitionId, *, without: int | None = None, joining: int | None = None
    ) -> Cluster:
        """Return the surroundings of a partition.

        without: a broker that is not acceptable as leader. joining: a broker that is, although it
        is still fenced (`ReplicationControlManager.generateLeaderAndIsrUpdates`).
        """
        now = self.partitions[partition]

        def acceptable(replica: int) -> bool:  # LeaderAcceptor
            broker = self.brokers.get(replica)
            if broker is None or replica == without:
                return False
            return (replica == joining or broker.active) and broker.online(now.directory(replica))

        return Cluster(
            rules=self.rules,
            acceptable=acceptable,
            min_isr=self._min_isr(partition[0]),
            elr=self.elr,
            metadata_version=self._features.get("metadata.version", 1),
            default_directory=self.default_directory,
        )

    def unclean(self, partition: PartitionId) -> bool:
        setting = self._setting(partition[0], UNCLEAN_LEADER_ELECTION_ENABLE)
        return self.rules.unclean_by_setting and setting == "true"

    def default_directory(self, broker: int) -> str:
        """Return the directory of a broker's new replicas (`ClusterControlManager.defaultDir`)."""
        if broker not in self.brokers:
            return pc.UNASSIGNED
        directories = self.brokers[broker].directories
        if len(directories) == 1:
            return directories[0]
        return pc.UNASSIGNED if directories else pc.MIGRATING

    def name(self, partition: PartitionId) -> str:
        """Return a partition's name: ``orders-0``."""
        return f"{self.topics.get(partition[0], partition[0])}-{partition[1]}"

    def apply(self, record: MetadataRecord) -> None:
        """Apply one record.

        Raises LogError if it names a partition, topic or broker that does not exist.
        """
        data = record.data
        try:
            match record.kind:
                case "TOPIC_RECORD":
                    self.topics[data["topicId"]] = data["name"]
                case "REMOVE_TOPIC_RECORD":
                    self._remove_topic(data["topicId"])
                case "PARTITION_RECORD":
                    self.partitions[partition_of(data)] = created(data)
                case "PARTITION_CHANGE_RECORD":
                    partition = partition_of(data)
                    self.partitions[partition] = pc.apply(
                        self.partitions[partition], change_of(data)
                    )
                case "CLEAR_ELR_RECORD":
                    self._clear_elr(data["topicName"])
                case "FEATURE_LEVEL_RECORD":
                    self._features[data["name"]] = data["featureLevel"]
                case "CONFIG_RECORD":
                    self._configure(data)
                case "REGISTER_BROKER_RECORD":
                    self.brokers[data["brokerId"]] = _registered(data)
                case "UNREGISTER_BROKER_RECORD":
                    del self.brokers[data["brokerId"]]
                case "BROKER_REGISTRATION_CHANGE_RECORD":
                    broker = self.brokers[data["brokerId"]]
                    if broker.epoch != data["brokerEpoch"]:
                        raise LogError(
                            f"it changes broker {data['brokerId']} at epoch {data['brokerEpoch']}, "
                            f"which is registered at epoch {broker.epoch}"
                        )
                    self.brokers[data["brokerId"]] = _changed(broker, data)
        except KeyError as error:
            raise LogError(f"it names {error.args[0]}, which does not exist") from None

    def _min_isr(self, topic: str) -> int:
        replicas = self.partitions[topic, 0].replicas
        return effective_min_isr(int(self._setting(topic, MIN_INSYNC_REPLICAS)), len(replicas))

    def _setting(self, topic: str, key: str) -> str:
        """Return a topic's setting, its own or the cluster's (`getTopicConfig`)."""
        for resource in ((_TOPIC, self.topics[topic]), (_BROKER, "")):
            if (value := self._settings.get((*resource, key))) is not None:
                return value
        return _DEFAULTS[key]

    def _configure(self, data: Mapping[str, Any]) -> None:
        key = data["resourceType"], data["resourceName"], data["name"]
        if data["value"] is None:
            self._settings.pop(key, None)
        else:
            self._settings[key] = data["value"]

    def _remove_topic(self, topic: str) -> None:
        del self.topics[topic]
        self.partitions = {at: one for at, one in self.partitions.items() if at[0] != topic}

    def _clear_elr(self, topic: str) -> None:
        """Clear the ELR of a topic, of all topics for an empty name (`TopicDelta.maybeClearElr`).

        That is a change of each partition that had an ELR.
        """
        for partition, now in self.partitions.items():
            if topic in ("", self.topics[partition[0]]) and (now.elr or now.last_known_elr):
                self.partitions[partition] = pc.apply(now, Change(elr=(), last_known_elr=()))


def partition_of(data: Mapping[str, Any]) -> PartitionId:
    return data["topicId"], data["partitionId"]


def created(data: Mapping[str, Any]) -> Registration:
    """Return the registration in a PartitionRecord."""
    replicas = tuple(data["replicas"])
    return Registration(
        replicas=replicas,
        directories=tuple(data.get("directories") or (pc.MIGRATING,) * len(replicas)),
        isr=tuple(data["isr"]),
        leader=data["leader"],
        leader_epoch=data["leaderEpoch"],
        partition_epoch=data["partitionEpoch"],
        recovering=data.get("leaderRecoveryState", 0) == 1,
        elr=tuple(data.get("eligibleLeaderReplicas") or ()),
        last_known_elr=tuple(data.get("lastKnownElr") or ()),
        removing=tuple(data.get("removingReplicas") or ()),
        adding=tuple(data.get("addingReplicas") or ()),
    )


def change_of(data: Mapping[str, Any]) -> Change:
    """Return the fields of a PartitionChangeRecord; an absent or null list is unchanged."""
    recovery = data.get("leaderRecoveryState", -1)
    return Change(
        isr=_listed(data.get("isr")),
        leader=data.get("leader"),
        replicas=_listed(data.get("replicas")),
        removing=_listed(data.get("removingReplicas")),
        adding=_listed(data.get("addingReplicas")),
        recovering=None if recovery == -1 else recovery == 1,
        directories=_listed(data.get("directories")),
        elr=_listed(data.get("eligibleLeaderReplicas")),
        last_known_elr=_listed(data.get("lastKnownElr")),
    )


def _listed(values: Iterable[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


def _registered(data: Mapping[str, Any]) -> Broker:
    return Broker(
        epoch=data["brokerEpoch"],
        incarnation=data["incarnationId"],
        fenced=data.get("fenced", True),
        stopping=data.get("inControlledShutdown", False),
        directories=tuple(data.get("logDirs") or ()),
    )


def _changed(broker: Broker, data: Mapping[str, Any]) -> Broker:
    """Return a registration after a BrokerRegistrationChangeRecord; 1 sets, -1 clears, 0 leaves."""
    fenced, stopping = data.get("fenced", 0), data.get("inControlledShutdown", 0)
    return replace(
        broker,
        fenced=fenced == 1 if fenced else broker.fenced,
        stopping=stopping == 1 if stopping else broker.stopping,
        directories=tuple(data.get("logDirs") or broker.directories),
    )
