"""What an operator does to a running cluster, as faults ask for it (`faults.operations`).

Where Kafka's own tool would need a JVM for a second or two, its Admin API is asked instead; the
tool is left for what librdkafka has no request for (reassignment).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ackproof.cluster import (
    controllers,
    features,
    lifecycle,
    quorum,
    reassignment,
)
from ackproof.errors import AckproofError, ClusterError
from ackproof.waiting import wait_for
from ackproof_faults import FaultError
from ackproof_faults.interfaces.operations import Place, Placement

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from ackproof.cluster.cluster import KafkaCluster

T = TypeVar("T")

_ANSWER_S = 30.0


class ClusterOperations:
    """Kafka's Admin API and tools, on a cluster that ackproof booted."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._overridden: dict[tuple[str, str], str | None] = {}
        self._ids: dict[str, str | None] = {}
        self._added: list[int] = []
        self._added_controllers: list[int] = []

    def topic(self, name: str) -> Mapping[int, Placement]:
        """Return the topic's partitions; empty if it is not there, or nobody can say now."""
        return {
            number: Placement(leader=view.leader, replicas=view.replicas, isr=view.isr)
            for (topic, number), view in self._cluster.partitions().items()
            if topic == name
        }

    def await_topic(
        self,
        look: Callable[[], Mapping[int, Placement]],
        good: Callable[[Mapping[int, Placement]], bool],
        *,
        within_s: float,
    ) -> Mapping[int, Placement]:
        """Return what `look` says as soon as it is good, or what it said last."""
        return seen_within(look, good, within_s=within_s)

    def elect(self, places: Sequence[Place], *, unclean: bool) -> None:
        """Elect the preferred leader, or (`unclean`) whoever is there if there is none."""
        from confluent_kafka import ElectionType, TopicPartition

        kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        wanted = [TopicPartition(topic, partition) for topic, partition in places]
        with _refusals("the election"):
            # A timeout as an argument fails in the bindings of confluent-kafka 2.16.
            answers = self._admin.elect_leaders(kind, wanted).result(_ANSWER_S)
        for place, error in answers.items():
            if error is not None:
                raise FaultError(f"no election for {place.topic}-{place.partition}: {error}")

    def reassign(self, wanted: Mapping[Place, Sequence[int]]) -> None:
        """Ask for other replicas; do not wait until they have copied everything."""
        with _refusals("the reassignment"):
            reassignment.begin(self._cluster, wanted)

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

    def await_setting(self, topic: str, key: str, value: str, *, within_s: float) -> str | None:
        """Return a topic's setting as soon as it has this value, or what it was last."""
        return seen_within(lambda: self.setting(topic, key), value.__eq__, within_s=within_s)

    def override(self, topic: str, key: str, value: str) -> None:
        """Change a topic's setting, and remember what it was."""
        self._overridden.setdefault((topic, key), self._own_settings(topic).get(key))
        self._set(topic, key, value)

    def restore(self, topic: str, key: str) -> None:
        """Change a topic's setting back; a no-op if it was not overridden."""
        if (topic, key) in self._overridden:
            self._set(topic, key, self._overridden[topic, key])
            del self._overridden[topic, key]

    def _own_settings(self, topic: str) -> Mapping[str, str]:
        """Return the settings that the topic has for itself; raise FaultError if nobody says."""
        from confluent_kafka.admin import ConfigSource

        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        found = seen_within(lambda: self._described(topic), bool, within_s=_ANSWER_S)
        if not found:
            raise FaultError(f"no broker tells the settings of {topic}")
        return {
            key: str(entry.value)
            for key, entry in found.items()
            if getattr(entry.source, "value", entry.source) == own
        }

    def _set(self, topic: str, key: str, value: str | None) -> None:
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

    def recreate(self, topic: str) -> None:
        """Delete a topic and create it with the same replicas and settings."""
        there = seen_within(lambda: self.topic(topic), bool, within_s=_ANSWER_S)
        if not there:
            raise FaultError(f"{topic} is not there")
        placed = [list(one.replicas) for _, one in sorted(there.items())]
        settings = self._own_settings(topic)
        self._ids[topic] = seen_within(
            lambda: self._topic_id(topic), lambda found: found is not None, within_s=_ANSWER_S
        )
        with _refusals(f"the deletion of {topic}"):
            self._cluster.admin.delete_topics([topic])
        # Until every controller and broker has forgotten it, its name is taken.
        seen_within(lambda: self.topic(topic), lambda found: not found, within_s=_ANSWER_S)
        with _refusals(f"the creation of {topic}"):
            self._cluster.admin.create_topic(
                topic,
                partitions=len(placed),
                replication_factor=len(placed[0]),
                settings=settings,
                assignment=placed,
            )

    def recreated(self, topic: str) -> tuple[str | None, str | None]:
        """Return the id that a topic had before it was recreated, and its id now (KIP-516).

        A broker may name the old one until its metadata has caught up.
        """
        before = self._ids.get(topic)
        now = seen_within(
            lambda: self._topic_id(topic),
            lambda found: found not in (None, before),
            within_s=_ANSWER_S,
        )
        return before, now

    def _topic_id(self, name: str) -> str | None:
        """Return the topic's id, None if it is not there or nobody can say now."""
        from confluent_kafka import KafkaException, TopicCollection

        asked = self._admin.describe_topics(TopicCollection([name]), request_timeout=2)
        try:
            return str(asked[name].result(3).topic_id)
        except (KafkaException, TimeoutError):
            return None

    def add_broker(self) -> None:
        """Boot another broker, until every other lists it."""
        with _refusals("another broker"):
            self._added.append(lifecycle.add_broker(self._cluster))

    def added(self) -> Sequence[int]:
        """Return the brokers that were added, in order."""
        return list(self._added)

    def remove_broker(self, broker: int) -> None:
        """Move a broker's replicas to the others, shut it down, make the cluster forget it."""
        with _refusals(f"the removal of broker {broker}"):
            lifecycle.remove_broker(self._cluster, broker)

    def listed(self, broker: int) -> bool:
        """Whether a broker lists this one, or a partition has a replica on it."""
        brokers = self._cluster.broker_ids()
        return any(broker in self._cluster.listed_by(one) for one in brokers) or any(
            broker in view.replicas for view in self._cluster.partitions().values()
        )

    def add_controller(self) -> None:
        """Boot another controller, until it votes in the metadata quorum."""
        with _refusals("another controller"):
            self._added_controllers.append(controllers.add(self._cluster))

    def added_controllers(self) -> Sequence[int]:
        """Return the controllers that were added, in order."""
        return list(self._added_controllers)

    def remove_controller(self, controller: int) -> None:
        """Have a controller vote no more, and end it for good."""
        with _refusals(f"the removal of controller {controller}"):
            controllers.remove(self._cluster, controller)

    def voters(self) -> Sequence[int]:
        """Return who votes over metadata and is caught up, by what the quorum says of itself."""
        return quorum.voters(self._cluster)

    def feature_level(self, feature: str) -> str | None:
        """Return a feature's finalized level, None if the cluster does not know the feature."""
        with _refusals(f"to tell the level of {feature}"):
            return features.level(self._cluster, feature)

    def upgrade_feature(self, feature: str, level: str) -> None:
        """Finalize a higher level of a feature."""
        with _refusals(f"{feature}={level}"):
            features.upgrade(self._cluster, feature, level)

    def version(self, broker: int) -> str | None:
        """Return the Kafka version that the broker said it started last."""
        with _refusals(f"the log of broker {broker}"):
            said = self._cluster.nodes[broker].container.logs().decode(errors="replace")
        found = _VERSION.findall(said)
        return found[-1] if found else None

    def upgrade(self, broker: int, version: str) -> None:
        """Restart a broker with another Kafka version on its disk."""
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


#: `org.apache.kafka.common.utils.AppInfoParser`
_VERSION = re.compile(r"Kafka version: ([0-9][0-9A-Za-z.-]*)")


def seen_within(look: Callable[[], T], good: Callable[[T], bool], *, within_s: float) -> T:
    """Return what `look` says as soon as it is good, or what it said last."""
    last: list[T] = []

    def looked() -> T:
        last[:] = [look()]
        return last[0]

    with contextlib.suppress(ClusterError):
        wait_for(looked, good, within_s=within_s, failure=lambda _: ClusterError("not seen"))
    return last[0]


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
        raise FaultError(f"{what}: {str(error) or 'no answer'}") from error
