"""What Kafka itself says about the cluster, over its EXTERNAL listeners."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ackproof.errors import ClusterError
from ackproof.waiting import wait_for

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, NewTopic

TopicPartition = tuple[str, int]

#: How long a partition may be without a leader before its earliest offset is given up.
_OFFSETS_S = 30.0


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


def new_topic(
    name: str,
    *,
    partitions: int,
    replication_factor: int,
    settings: Mapping[str, str],
    assignment: Sequence[Sequence[int]] = (),
) -> NewTopic:
    """Return what Kafka is asked for; see `Admin.create_topic`."""
    from confluent_kafka.admin import NewTopic

    placed: dict[str, Any] = (
        {"replica_assignment": [list(replicas) for replicas in assignment]}
        if assignment
        else {"replication_factor": replication_factor}
    )
    return NewTopic(name, num_partitions=partitions, config=dict(settings), **placed)


class Admin:
    """Asks and tells the cluster; every call is bounded by `timeout_s`.

    `settings` are what a client needs to be let in, by librdkafka's names.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        settings: Mapping[str, str] | None = None,
        timeout_s: float = 5.0,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._own_settings = settings or {}
        self._timeout_s = timeout_s
        self._clients: dict[int, AdminClient] = {}

    def brokers(self) -> frozenset[int]:
        """Return the ids of registered, unfenced brokers; empty while nobody answers.

        In KRaft the metadata that brokers hand out names unfenced brokers only
        (`KRaftMetadataCache.getAliveBrokerNodes`).
        """
        from confluent_kafka import KafkaException

        try:
            return frozenset(self._asking().list_topics(timeout=self._timeout_s).brokers)
        except KafkaException:
            return frozenset()

    def partitions(self) -> Mapping[TopicPartition, PartitionView]:
        """Return every partition of every topic; empty while nobody answers."""
        from confluent_kafka import KafkaException

        try:
            topics = self._asking().list_topics(timeout=self._timeout_s).topics
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
        self,
        name: str,
        *,
        partitions: int,
        replication_factor: int,
        settings: Mapping[str, str],
        assignment: Sequence[Sequence[int]] = (),
    ) -> None:
        """Create a topic; raise ClusterError with Kafka's reason if it refuses.

        `assignment` names the brokers of each partition's replicas; empty leaves it to Kafka.
        """
        self.create(
            new_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                settings=settings,
                assignment=assignment,
            )
        )

    def create(self, topic: NewTopic) -> None:
        """Create a topic; raise ClusterError with Kafka's reason if it refuses."""
        from confluent_kafka import KafkaException

        try:
            self._telling().create_topics([topic], request_timeout=30)[topic.topic].result(
                timeout=60
            )
        except KafkaException as error:
            raise ClusterError(
                f"topic {topic.topic!r} cannot be created: {error.args[0].str()}",
                hint="Check topics.*.settings in the scenario against Kafka's topic settings.",
            ) from error

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete these topics; raise ClusterError with Kafka's reason if it refuses one."""
        from confluent_kafka import KafkaException

        if not names:
            return
        try:
            for answer in self._telling().delete_topics(list(names), request_timeout=30).values():
                answer.result(timeout=60)
        except KafkaException as error:
            raise ClusterError(f"a topic cannot be deleted: {error.args[0].str()}") from error

    def begin_offsets(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the earliest offset of each partition.

        A leader that has just moved is asked again. Raises ClusterError if one cannot be had.
        """
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Place
        from confluent_kafka.admin import OffsetSpec

        asked = {Place(topic, partition): OffsetSpec.earliest() for topic, partition in places}
        refusal = ""

        def look() -> dict[TopicPartition, int] | None:
            nonlocal refusal
            answers = self._telling().list_offsets(asked, request_timeout=30)
            try:
                return {(p.topic, p.partition): f.result(60).offset for p, f in answers.items()}
            except KafkaException as error:
                refusal = error.args[0].str()
                return None

        found = wait_for(
            look,
            lambda offsets: offsets is not None,
            within_s=_OFFSETS_S,
            every_s=0.2,
            failure=lambda _: ClusterError(
                f"the earliest offset of a partition cannot be had: {refusal}"
            ),
        )
        assert found is not None  # it was waited for
        return found

    def log_end(self, topic: str, partition: int) -> tuple[int, int] | None:
        """Return the partition's high watermark and leader epoch, None if nobody can say now."""
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Place
        from confluent_kafka.admin import OffsetSpec

        place = Place(topic, partition)
        asked = self._asking().list_offsets({place: OffsetSpec.latest()}, request_timeout=1)
        try:
            found = asked[place].result(2)
        except (KafkaException, TimeoutError):
            return None
        return found.offset, -1 if found.leader_epoch is None else found.leader_epoch

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        """Return the offset that a group has committed, None if none or nobody can say now."""
        from confluent_kafka import Consumer, KafkaException
        from confluent_kafka import TopicPartition as Place

        # Not by the Admin client: a process that asked so while brokers went down once ended with
        # SIGSEGV (confluent-kafka 2.16). That this request was the cause is only suspected: alone,
        # with brokers that answer and with none that does, it did no such thing.
        consumer = Consumer({**self._settings(), "group.id": group})
        try:
            (found,) = consumer.committed([Place(topic, partition)], timeout=2)
        except KafkaException:
            return None
        finally:
            consumer.close()
        return None if found.error is not None or found.offset < 0 else int(found.offset)

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

    def client(self) -> AdminClient:
        """Return Kafka's own Admin client, for what has no method here."""
        return self._telling()

    def _settings(self) -> dict[str, str | int]:
        return {
            "bootstrap.servers": self._bootstrap_servers,
            # A broker that comes back should be seen at once, not after a backoff of 10 s.
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 100,
            "socket.connection.setup.timeout.ms": 2000,
            "log_level": 0,  # a killed broker is what we asked for, not news
            **self._own_settings,
        }

    def _asking(self) -> AdminClient:
        # A frozen broker takes requests and never answers: the next question goes to another.
        return self._client(give_up_ms=5_000)

    def _telling(self) -> AdminClient:
        """Return a client that knows who is there now.

        librdkafka sends a change to the broker that its last metadata named as controller (in
        KRaft any that was unfenced then), and waits in vain if that one has died since.
        """
        from confluent_kafka import KafkaException

        client = self._client(give_up_ms=60_000)
        with contextlib.suppress(KafkaException):  # the change itself will say that nobody answers
            client.list_topics(timeout=self._timeout_s)
        return client

    def _client(self, *, give_up_ms: int) -> AdminClient:
        """Return the client whose requests to one broker are given up after so long."""
        from confluent_kafka.admin import AdminClient

        if give_up_ms not in self._clients:
            settings = {**self._settings(), "socket.timeout.ms": give_up_ms}
            self._clients[give_up_ms] = AdminClient(settings)
        return self._clients[give_up_ms]
