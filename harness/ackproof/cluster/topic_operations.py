"""An operator's actions on topics and their settings, as faults use them.

They use the Admin API, because Kafka's own tools start a JVM for a second or two. `lifecycle` has
the actions that librdkafka does not support.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
)

from ackproof.cluster.admin import PartitionView
from ackproof.cluster.fault_errors import raises_fault_errors, refusals
from ackproof.cluster.nodes import ClusterNodes
from ackproof.cluster.topology import ZooKeeper
from ackproof.waiting import last_result
from ackproof_faults.evidence import FaultError
from ackproof_faults.interfaces.cluster import Placement, TopicPartition

#: How long Kafka may take to answer a request.
_ANSWER_S = 30.0


@raises_fault_errors
class TopicOperations:
    def __init__(self, cluster: ClusterNodes) -> None:
        self._cluster = cluster
        #: Values before `override`, by topic and key; None: the topic had no value of its own.
        self._overridden: dict[tuple[str, str], str | None] = {}
        #: The last report of each topic's settings, unless ackproof has changed the topic since.
        self._known: dict[str, Mapping[str, Any]] = {}
        #: Ids before `recreate`, by topic.
        self._former_ids: dict[str, str | None] = {}

    def topic(self, name: str) -> Mapping[int, Placement]:
        return _of_topic(name, self._cluster.partitions())

    def decided(self, name: str) -> Mapping[int, Placement]:
        return _of_topic(name, self._cluster.decided())

    def await_topic(
        self,
        look: Callable[[], Mapping[int, Placement]],
        good: Callable[[Mapping[int, Placement]], bool],
        *,
        within_s: float,
    ) -> Mapping[int, Placement]:
        return last_result(look, good, within_s=within_s)

    def elect(self, places: Sequence[TopicPartition], *, unclean: bool) -> None:
        election = confluent_kafka.ElectionType
        kind = election.UNCLEAN if unclean else election.PREFERRED
        partitions = [confluent_kafka.TopicPartition(*place) for place in places]
        with refusals("the election"):
            # A timeout as an argument fails in the bindings of confluent-kafka 2.16.
            answers = self._cluster.admin.client().elect_leaders(kind, partitions).result(_ANSWER_S)
        for partition, error in answers.items():
            if error is not None:
                raise FaultError(
                    f"no election for {partition.topic}-{partition.partition}: {error}"
                )

    def add_partitions(self, topic: str, count: int) -> None:
        with refusals(f"{count} partitions of {topic}"):
            request = [NewPartitions(topic, count)]
            self._cluster.admin.client().create_partitions(request)[topic].result(_ANSWER_S)

    def setting(self, topic: str, key: str) -> str | None:
        entry = self._described(topic).get(key)
        return None if entry is None else str(entry.value)

    def known_setting(self, topic: str, key: str) -> str | None:
        entry = (self._known.get(topic) or self._described(topic)).get(key)
        return None if entry is None else str(entry.value)

    def read_settings(self, topic: str) -> None:
        """Read the settings of a new topic; those of an earlier topic of this name are dropped."""
        self._known.pop(topic, None)
        last_result(lambda: self._described(topic), bool, within_s=_ANSWER_S)

    def await_own_setting(self, topic: str, key: str, value: str, *, within_s: float) -> str | None:
        return last_result(
            lambda: self._decided_setting(topic, key), value.__eq__, within_s=within_s
        )

    def _decided_setting(self, topic: str, key: str) -> str | None:
        if isinstance(self._cluster.topology.metadata, ZooKeeper):
            return self.setting(topic, key)  # brokers read it from ZooKeeper (`ConfigHelper`)
        return self._cluster.controllers_log.settings(topic).get(key)

    def override(self, topic: str, key: str, value: str) -> None:
        self._overridden.setdefault((topic, key), self._own_settings(topic).get(key))
        self._set(topic, key, value)

    def restore(self, topic: str, key: str) -> None:
        if (topic, key) in self._overridden:
            self._set(topic, key, self._overridden[topic, key])
            del self._overridden[topic, key]

    def _own_settings(self, topic: str) -> Mapping[str, str]:
        """Return the settings of the topic itself; raise FaultError if no broker returns them."""
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        entries = last_result(lambda: self._described(topic), bool, within_s=_ANSWER_S)
        if not entries:
            raise FaultError(f"no broker returns the settings of {topic}")
        return {
            key: str(entry.value)
            for key, entry in entries.items()
            if getattr(entry.source, "value", entry.source) == own
        }

    def _set(self, topic: str, key: str, value: str | None) -> None:
        """Change a topic's setting; None restores the default."""
        change = ConfigEntry(
            key,
            value,
            incremental_operation=AlterConfigOpType.DELETE
            if value is None
            else AlterConfigOpType.SET,
        )
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[change])
        with refusals(f"{key} of {topic}"):
            client = self._cluster.admin.client()
            client.incremental_alter_configs([resource])[resource].result(_ANSWER_S)
        self._known.pop(topic, None)

    def recreate(self, topic: str) -> None:
        partitions = last_result(lambda: self.topic(topic), bool, within_s=_ANSWER_S)
        if not partitions:
            raise FaultError(f"there is no topic {topic}")
        assignment = [list(view.replicas) for _, view in sorted(partitions.items())]
        settings = self._own_settings(topic)
        self._former_ids[topic] = last_result(
            lambda: self._cluster.admin.topic_id(topic),
            lambda topic_id: topic_id is not None,
            within_s=_ANSWER_S,
        )
        with refusals(f"the deletion of {topic}"):
            self._cluster.admin.delete_topics([topic])
        # The name is in use until every controller and broker has deleted the topic.
        last_result(lambda: self.topic(topic), lambda views: not views, within_s=_ANSWER_S)
        with refusals(f"the creation of {topic}"):
            self._cluster.admin.create_topic(
                NewTopic(
                    topic,
                    num_partitions=len(assignment),
                    replica_assignment=assignment,
                    config=settings,
                )
            )

    def recreated(self, topic: str) -> tuple[str | None, str | None]:
        before = self._former_ids.get(topic)
        # A broker returns the old id until its metadata is up to date.
        now = last_result(
            lambda: self._cluster.admin.topic_id(topic),
            lambda topic_id: topic_id not in (None, before),
            within_s=_ANSWER_S,
        )
        return before, now

    def _described(self, topic: str) -> Mapping[str, Any]:
        """Return the topic's settings with their sources; empty if they are unknown."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        client = self._cluster.admin.client()
        answers = client.describe_configs([resource], request_timeout=2)
        try:
            entries: Mapping[str, Any] = answers[resource].result(3)
        except (KafkaException, TimeoutError):
            return {}
        self._known[topic] = entries
        return entries


def _of_topic(
    name: str, partitions: Mapping[TopicPartition, PartitionView]
) -> Mapping[int, Placement]:
    return {number: view for (topic, number), view in partitions.items() if topic == name}
