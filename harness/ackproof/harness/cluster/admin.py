"""What Kafka itself says about the cluster, over its EXTERNAL listeners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ackproof.harness.errors import ClusterError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """A partition as the brokers describe it; `leader` is None while there is none."""

    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def full_isr(self) -> bool:
        """Whether it has a leader and every replica is in sync."""
        return self.leader is not None and set(self.isr) == set(self.replicas)


class Admin:
    """Asks and tells the cluster; every call is bounded by `timeout_s`."""

    def __init__(self, bootstrap_servers: str, *, timeout_s: float = 5.0) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._timeout_s = timeout_s
        self._client: AdminClient | None = None

    def brokers(self) -> frozenset[int]:
        """Return the ids of registered, unfenced brokers; empty while nobody answers.

        In KRaft the metadata that brokers hand out names unfenced brokers only
        (`KRaftMetadataCache.getAliveBrokerNodes`).
        """
        from confluent_kafka import KafkaException

        try:
            return frozenset(self._kafka().list_topics(timeout=self._timeout_s).brokers)
        except KafkaException:
            return frozenset()

    def partitions(self) -> Mapping[TopicPartition, PartitionView]:
        """Return every partition of every topic; empty while nobody answers."""
        from confluent_kafka import KafkaException

        try:
            topics = self._kafka().list_topics(timeout=self._timeout_s).topics
        except KafkaException:
            return {}
        return {
            (name, number): PartitionView(
                leader=None if partition.leader < 0 else partition.leader,
                replicas=tuple(partition.replicas),
                isr=tuple(partition.isrs),
            )
            for name, topic in topics.items()
            for number, partition in topic.partitions.items()
        }

    def create_topic(
        self, name: str, *, partitions: int, replication_factor: int, settings: Mapping[str, str]
    ) -> None:
        """Create a topic; raise ClusterError with Kafka's reason if it refuses."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewTopic

        topic = NewTopic(
            name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            config=dict(settings),
        )
        try:
            self._kafka().create_topics([topic], request_timeout=30)[name].result(timeout=60)
        except KafkaException as error:
            raise ClusterError(
                f"topic {name!r} cannot be created: {error.args[0].str()}",
                hint="Check topics.*.settings in the scenario against Kafka's topic settings.",
            ) from error

    def begin_offsets(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the earliest offset of each partition; raise ClusterError if one has no leader."""
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Place
        from confluent_kafka.admin import OffsetSpec

        asked = {Place(topic, partition): OffsetSpec.earliest() for topic, partition in places}
        answers = self._kafka().list_offsets(asked, request_timeout=30)
        try:
            return {(p.topic, p.partition): f.result(60).offset for p, f in answers.items()}
        except KafkaException as error:
            raise ClusterError(
                f"the earliest offset of a partition cannot be had: {error.args[0].str()}"
            ) from error

    def end_offsets(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return for each partition an offset below which everything it holds can be read.

        The high watermark that a broker reports may lag behind: it moves only when followers have
        fetched again. A record that is acked with acks=1 and not yet below it would look lost. So
        a closing record is written with acks=all: its ack proves that the high watermark has
        passed it, and with it everything before. It is no part of the run.

        Raises ClusterError if a closing record is not acked.
        """
        from confluent_kafka import Producer

        found: dict[TopicPartition, int] = {}
        problems: list[str] = []

        def on_delivery(error: Any, message: Any) -> None:
            if error is None:
                found[message.topic(), message.partition()] = message.offset()
            else:
                problems.append(f"{message.topic()}-{message.partition()}: {error.str()}")

        producer = Producer(
            {**self._settings(), "acks": "all", "linger.ms": 0, "delivery.timeout.ms": 30_000}
        )
        for topic, partition in places:
            producer.produce(topic, b"end of run", partition=partition, on_delivery=on_delivery)
        producer.flush(60)
        if len(found) < len(places):
            raise ClusterError(
                "the final log cannot be closed: " + ("; ".join(problems) or "no answer")
            )
        return found

    def _settings(self) -> dict[str, str | int]:
        return {
            "bootstrap.servers": self._bootstrap_servers,
            # A broker that comes back should be seen at once, not after a backoff of 10 s.
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 100,
            "socket.connection.setup.timeout.ms": 2000,
            "log_level": 0,  # a killed broker is what we asked for, not news
        }

    def _kafka(self) -> AdminClient:
        if self._client is None:
            from confluent_kafka.admin import AdminClient

            self._client = AdminClient(self._settings())
        return self._client
