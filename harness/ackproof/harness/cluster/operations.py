"""What an operator does to a running cluster, as faults ask for it (`faults.operations`).

Where Kafka's own tool would need a JVM for a second or two, its Admin API is asked instead; the
tool is left for what librdkafka has no request for (reassignment).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ackproof.faults import FaultError
from ackproof.faults.operations import Place, Placement
from ackproof.harness.errors import AckproofError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from ackproof.harness.cluster.cluster import KafkaCluster

_ANSWER_S = 30.0


class ClusterOperations:
    """Kafka's Admin API and tools, on a cluster that ackproof booted."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster

    def topic(self, name: str) -> Mapping[int, Placement]:
        """Return the topic's partitions; empty if it is not there, or nobody can say now."""
        return {
            number: Placement(leader=view.leader, replicas=view.replicas, isr=view.isr)
            for (topic, number), view in self._cluster.partitions().items()
            if topic == name
        }

    def topic_id(self, name: str) -> str | None:
        """Return the topic's id (KIP-516), None if it is not there or nobody can say now."""
        from confluent_kafka import KafkaException, TopicCollection

        asked = self._admin.describe_topics(TopicCollection([name]), request_timeout=2)
        try:
            return str(asked[name].result(3).topic_id)
        except (KafkaException, TimeoutError):
            return None

    def elect(self, places: Sequence[Place], *, unclean: bool) -> None:
        """Elect the preferred leader, or (`unclean`) whoever is there if there is none."""
        from confluent_kafka import ElectionType, KafkaError, TopicPartition

        kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        wanted = [TopicPartition(topic, partition) for topic, partition in places]
        with _refusals("the election"):
            answers = self._admin.elect_leaders(kind, wanted, request_timeout=_ANSWER_S)
            for place, error in answers.result(_ANSWER_S).items():
                if error is not None and error.code() != KafkaError.ELECTION_NOT_NEEDED:
                    raise FaultError(f"no election for {place.topic}-{place.partition}: {error}")

    def reassign(self, wanted: Mapping[Place, Sequence[int]]) -> None:
        """Ask for other replicas; do not wait until they have copied everything."""
        from ackproof.harness.cluster import lifecycle

        with _refusals("the reassignment"):
            lifecycle.begin_reassignment(self._cluster, wanted)

    def add_partitions(self, topic: str, count: int) -> None:
        """Have the topic have `count` partitions."""
        from confluent_kafka.admin import NewPartitions

        with _refusals(f"{count} partitions of {topic}"):
            wanted = [NewPartitions(topic, count)]
            self._admin.create_partitions(wanted)[topic].result(_ANSWER_S)

    def setting(self, topic: str, key: str) -> str | None:
        """Return a topic's setting in force, None if nobody can say now."""
        found = self._described(topic).get(key)
        return None if found is None else str(found.value)

    def settings(self, topic: str) -> Mapping[str, str]:
        """Return the settings that the topic has for itself."""
        from confluent_kafka.admin import ConfigSource

        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {
            key: str(entry.value)
            for key, entry in self._described(topic).items()
            if getattr(entry.source, "value", entry.source) == own
        }

    def set_setting(self, topic: str, key: str, value: str | None) -> None:
        """Change a topic's setting; None: have the default again."""
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

        change = ConfigEntry(
            key,
            value,
            incremental_operation=AlterConfigOpType.DELETE
            if value is None
            else AlterConfigOpType.SET,
        )
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[change])
        with _refusals(f"{key} of {topic}"):
            self._admin.incremental_alter_configs([resource])[resource].result(_ANSWER_S)

    def delete_topic(self, name: str) -> None:
        """Delete the topic."""
        with _refusals(f"the deletion of {name}"):
            self._cluster.admin.delete_topics([name])

    def create_topic(
        self, name: str, assignment: Sequence[Sequence[int]], settings: Mapping[str, str]
    ) -> None:
        """Create a topic with these replicas and settings."""
        with _refusals(f"the creation of {name}"):
            self._cluster.admin.create_topic(
                name,
                partitions=len(assignment),
                replication_factor=len(assignment[0]),
                settings=settings,
                assignment=assignment,
            )

    def add_broker(self) -> int:
        """Boot another broker; return its id when every other lists it."""
        from ackproof.harness.cluster import lifecycle

        with _refusals("another broker"):
            return lifecycle.add_broker(self._cluster)

    def remove_broker(self, broker: int) -> None:
        """Move a broker's replicas to the others, shut it down, make the cluster forget it."""
        from ackproof.harness.cluster import lifecycle

        with _refusals(f"the removal of broker {broker}"):
            lifecycle.remove_broker(self._cluster, broker)

    def version(self, broker: int) -> str:
        """Return the Kafka version that the broker says it runs, from its log."""
        from ackproof.harness.cluster import tools

        with _refusals(f"the version of broker {broker}"):
            said = tools.run_script(
                self._cluster.nodes[broker], _VERSION, f"asking broker {broker} for its version"
            )
        return said.strip()

    def upgrade(self, broker: int, version: str) -> None:
        """Restart a broker with another Kafka version on its disk."""
        from ackproof.harness.cluster import lifecycle

        with _refusals(f"the upgrade of broker {broker}"):
            lifecycle.upgrade(self._cluster, broker, version)

    def _described(self, topic: str) -> Mapping[str, Any]:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource

        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        asked = self._admin.describe_configs([resource], request_timeout=2)
        try:
            found: Mapping[str, Any] = asked[resource].result(3)
        except (KafkaException, TimeoutError):
            return {}
        return found

    @property
    def _admin(self) -> AdminClient:
        return self._cluster.admin.client()


#: The version stands in the name of the jar that the running JVM has open.
_VERSION = (
    "ls -l /proc/1/fd 2>/dev/null | sed -n 's|.*/kafka-clients-\\([0-9.rc-]*\\)\\.jar.*|\\1|p' "
    "| head -1"
)


@contextlib.contextmanager
def _refusals(what: str) -> Iterator[None]:
    """Turn what Kafka or the engine refuses into FaultError."""
    from confluent_kafka import KafkaException
    from docker.errors import DockerException
    from requests import RequestException

    try:
        yield
    except KafkaException as error:
        raise FaultError(f"Kafka refuses {what}: {error.args[0].str()}") from error
    except (AckproofError, DockerException, RequestException, TimeoutError) as error:
        raise FaultError(f"{what}: {error}") from error
