"""A client of Kafka's Admin API on the EXTERNAL listeners."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicCollection
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from ackproof.cluster.times import RECOVERY_S
from ackproof.errors import ClusterError
from ackproof.scenario.topics import TopicSpec
from ackproof.scenario.types import setting_text
from ackproof.waiting import wait_for
from ackproof_faults.interfaces.cluster import Placement, TopicPartition
from ackproof_model.kafka_settings import (
    DELIVERY_TIMEOUT_MS,
    LINGER_MS,
)
from ackproof_model.removal import KEEP_EVERYTHING
from ackproof_spark.record import END_MARKER

#: How long to wait for the leader of a partition whose earliest offset is requested.
_OFFSETS_S = 30.0

#: The two alphabets of base64 in which ids are written.
_AS_KAFKA = str.maketrans("+/", "-_")

_MARKER_KEY = "end-marker"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView(Placement):
    """A partition's state in the metadata of a broker or of ZooKeeper."""

    @property
    def full_isr(self) -> bool:
        return self.leader is not None and set(self.isr) == set(self.replicas)


def describe(partition: TopicPartition, view: PartitionView | None) -> str:
    name = f"{partition[0]}-{partition[1]}"
    if view is None:
        return f"{name} is unknown to the brokers"
    return f"{name} (leader {view.leader}, ISR {list(view.isr)} of {list(view.replicas)})"


def below_full_isr(
    views: Mapping[TopicPartition, PartitionView], partitions: Sequence[TopicPartition]
) -> list[str]:
    """Describe those of the partitions that have no leader or no full ISR."""
    return [
        describe(partition, views.get(partition))
        for partition in partitions
        if partition not in views or not views[partition].full_isr
    ]


def refusal(error: Any) -> str:
    return str(error.args[0].str())


class Admin:
    """Reads and changes the cluster's metadata.

    `settings` are a client's security settings, in librdkafka's names. `timeout_s` bounds each
    request for metadata.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        settings: Mapping[str, str] | None = None,
        timeout_s: float = 5.0,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._client_settings = settings or {}
        self._timeout_s = timeout_s
        self._clients: dict[int, AdminClient] = {}

    def brokers(self) -> frozenset[int]:
        """Return the ids of registered, unfenced brokers; empty while no broker answers.

        In KRaft the metadata that brokers return lists unfenced brokers only
        (`KRaftMetadataCache.getAliveBrokerNodes`).
        """
        metadata = self._metadata()
        return frozenset(metadata.brokers if metadata else ())

    def partitions(self) -> Mapping[TopicPartition, PartitionView]:
        """Return every partition of every topic; empty while no broker answers."""
        metadata = self._metadata()
        return {
            (name, number): PartitionView(
                leader=None if partition.leader < 0 else partition.leader,
                replicas=tuple(partition.replicas),
                isr=tuple(partition.isrs),
            )
            for name, topic in (metadata.topics.items() if metadata else ())
            for number, partition in topic.partitions.items()
        }

    def _metadata(self) -> Any:
        """Return the metadata of a broker, None if no broker answers."""
        with contextlib.suppress(KafkaException):
            return self._reader().list_topics(timeout=self._timeout_s)

    def create_topic(self, topic: NewTopic) -> None:
        """Create a topic; raise ClusterError with Kafka's reason if it refuses."""
        try:
            self.client().create_topics([topic], request_timeout=30)[topic.topic].result(timeout=60)
        except KafkaException as error:
            raise ClusterError(
                f"topic {topic.topic!r} cannot be created: {refusal(error)}",
                hint="Check topics.*.settings in the scenario against Kafka's topic settings.",
            ) from error

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete these topics; raise ClusterError with Kafka's reason if it refuses.

        New clients are used afterwards. Before topics have ids (2.8, KIP-516), librdkafka uses the
        last leader epoch of the deleted topic for a new topic of that name, and brokers refuse its
        request for offsets (UNKNOWN_LEADER_EPOCH).
        """
        if not names:
            return
        try:
            for answer in self.client().delete_topics(list(names), request_timeout=30).values():
                answer.result(timeout=60)
        except KafkaException as error:
            raise ClusterError(f"a topic cannot be deleted: {refusal(error)}") from error
        self._clients = {}

    def set_group(self, group: str, settings: Mapping[str, object]) -> None:
        """Set settings of a group; raise ClusterError with Kafka's reason if it refuses."""
        changes = [
            ConfigEntry(key, setting_text(value), incremental_operation=AlterConfigOpType.SET)
            for key, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=changes)
        try:
            for answer in self.client().incremental_alter_configs([resource]).values():
                answer.result(timeout=60)
        except KafkaException as error:
            raise ClusterError(
                f"the group {group!r} cannot be configured: {refusal(error)}",
                hint="Check its group_settings, and the limits group.share.* in cluster.settings.",
            ) from error

    def group_settings(self, group: str) -> dict[str, str]:
        """Return a group's settings in force; raise ClusterError without an answer."""
        resource = ConfigResource(ResourceType.GROUP, group)
        try:
            (answer,) = self.client().describe_configs([resource]).values()
            return {name: entry.value for name, entry in answer.result(timeout=60).items()}
        except KafkaException as error:
            raise ClusterError(
                f"the settings of the group {group!r} are unknown: {refusal(error)}"
            ) from error

    def begin_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the earliest offset of each partition.

        Repeats the request while leaders change. Raises ClusterError if an offset stays unknown.
        """
        return self._offsets(partitions, OffsetSpec.earliest(), "the earliest offset")

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the high watermark of each partition, as `begin_offsets` does."""
        return self._offsets(partitions, OffsetSpec.latest(), "the high watermark")

    def stable_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the last stable offset of each partition, as `begin_offsets` does."""
        level = IsolationLevel.READ_COMMITTED
        return self._offsets(partitions, OffsetSpec.latest(), "the last stable offset", level)

    def _offsets(
        self,
        partitions: Sequence[TopicPartition],
        spec: Any,
        what: str,
        level: Any = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, int]:
        request = {KafkaPartition(*partition): spec for partition in partitions}

        def look() -> dict[TopicPartition, int] | KafkaException:
            answers = self.client().list_offsets(request, isolation_level=level, request_timeout=30)
            try:
                return {(p.topic, p.partition): f.result(60).offset for p, f in answers.items()}
            except KafkaException as error:
                return error

        return wait_for(
            look,
            lambda offsets: isinstance(offsets, dict),
            within_s=_OFFSETS_S,
            every_s=0.2,
            failure=lambda error: ClusterError(
                f"{what} of a partition is unknown: {refusal(error)}"
            ),
        )

    def log_end(self, topic: str, partition: int) -> tuple[int, int] | None:
        key = KafkaPartition(topic, partition)
        answers = self._reader().list_offsets({key: OffsetSpec.latest()}, request_timeout=1)
        try:
            end = answers[key].result(2)
        except (KafkaException, TimeoutError):
            # librdkafka repeats the leader epoch it knows, also after FENCED_LEADER_EPOCH.
            self._metadata()
            return None
        return end.offset, -1 if end.leader_epoch is None else end.leader_epoch

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        # A consumer, not the Admin client: a process that sent this request by the latter while
        # brokers went down ended with SIGSEGV once (confluent-kafka 2.16; cause unknown).
        consumer = Consumer({**self._settings(), "group.id": group})
        try:
            (position,) = consumer.committed([KafkaPartition(topic, partition)], timeout=2)
        except KafkaException:
            return None
        finally:
            consumer.close()
        return None if position.error is not None or position.offset < 0 else int(position.offset)

    def topic_id(self, name: str) -> str | None:
        """Return the topic's id, None if there is no such topic or the id is unknown.

        It is written as Kafka writes it (`Uuid.toString`): librdkafka has `+` and `/` in place of
        `-` and `_`.
        """
        answers = self.client().describe_topics(TopicCollection([name]), request_timeout=2)
        try:
            return str(answers[name].result(3).topic_id).translate(_AS_KAFKA)
        except (KafkaException, TimeoutError):
            return None

    def topic_setting(self, name: str, key: str) -> str:
        """Return a setting of a topic; '' without an answer, as without the right to ask."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        try:
            (answer,) = self.client().describe_configs([resource]).values()
            return str(answer.result(timeout=60)[key].value)
        except (KafkaException, KeyError):
            return ""

    def write_end_markers(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Write an end marker to each partition, and return the markers' offsets.

        Every record below a marker's offset can be read: the marker is written with acks=all, so
        its ack proves that the high watermark has passed it. Without a marker, the reported high
        watermark may lag, because it moves only when followers fetch again, and a record acked with
        acks=1 would look lost. Markers are not part of the run.

        Raises ClusterError if a marker is not acked.
        """
        offsets: dict[TopicPartition, int] = {}
        problems: list[str] = []

        def on_delivery(error: Any, message: Any) -> None:
            if error is None:
                offsets[message.topic(), message.partition()] = message.offset()
            else:
                problems.append(f"{message.topic()}-{message.partition()}: {error.str()}")

        producer = Producer(
            {**self._settings(), "acks": "all", LINGER_MS: 0, DELIVERY_TIMEOUT_MS: 30_000}
        )
        for topic, partition in partitions:
            # A compacted topic refuses records without a key.
            producer.produce(
                topic, END_MARKER, _MARKER_KEY, partition=partition, on_delivery=on_delivery
            )
        producer.flush(60)
        if len(offsets) < len(partitions):
            raise ClusterError(
                "an end marker was not acked, so the end of the final log is unknown: "
                + ("; ".join(problems) or "no answer")
            )
        return offsets

    def client(self) -> AdminClient:
        """Return Kafka's Admin client for changes, with metadata that is up to date.

        librdkafka sends a change to the controller in its last metadata (in KRaft any broker that
        was unfenced then), and times out if that broker has ended since.
        """
        client = self._client(socket_timeout_ms=60_000)
        with contextlib.suppress(KafkaException):  # the change will fail with the same error
            client.list_topics(timeout=self._timeout_s)
        return client

    def _reader(self) -> AdminClient:
        # A frozen broker accepts requests and does not answer: the next request goes to another.
        return self._client(socket_timeout_ms=5_000)

    def _settings(self) -> dict[str, str | int]:
        return {
            "bootstrap.servers": self._bootstrap_servers,
            # The default backoff of 10 s would delay the first answer of a restarted broker.
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 100,
            "socket.connection.setup.timeout.ms": 2000,
            "log_level": 0,  # faults stop brokers on purpose
            **self._client_settings,
        }

    def _client(self, *, socket_timeout_ms: int) -> AdminClient:
        if socket_timeout_ms not in self._clients:
            settings = {**self._settings(), "socket.timeout.ms": socket_timeout_ms}
            self._clients[socket_timeout_ms] = AdminClient(settings)
        return self._clients[socket_timeout_ms]


class RunningCluster:
    """A cluster that is known by its bootstrap servers; `settings` are librdkafka's."""

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, str]) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.client_settings = dict(settings)
        self.admin = Admin(bootstrap_servers, settings=settings)

    def await_full_isr(
        self, partitions: Sequence[TopicPartition], *, within_s: float = RECOVERY_S
    ) -> None:
        def failure(views: Mapping[TopicPartition, PartitionView]) -> ClusterError:
            late = "; ".join(below_full_isr(views, partitions)[:8])
            return ClusterError(f"not at full ISR after {within_s:g} s: {late}")

        wait_for(
            self.admin.partitions,
            lambda views: not below_full_isr(views, partitions),
            within_s=within_s,
            failure=failure,
        )


def new_topics(topics: Mapping[str, TopicSpec]) -> list[NewTopic]:
    """Return the request for each topic; retention keeps every record unless settings change it."""
    requests = []
    for name, topic in topics.items():
        settings = {key: setting_text(value) for key, value in topic.settings.items()}
        replicas: dict[str, Any] = {"replication_factor": topic.replication_factor}
        if topic.assignment:
            replicas = {"replica_assignment": [list(brokers) for brokers in topic.assignment]}
        config = {**KEEP_EVERYTHING, **settings}
        requests.append(NewTopic(name, topic.partitions, config=config, **replicas))
    return requests


def partitions_of(topics: Mapping[str, TopicSpec]) -> list[TopicPartition]:
    return [(name, n) for name, topic in topics.items() for n in range(topic.partitions)]
