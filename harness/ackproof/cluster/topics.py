"""A scenario's topics as requests to Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ackproof.scenario.model import TopicSpec
from ackproof.scenario.types import setting_text

if TYPE_CHECKING:
    from confluent_kafka.admin import NewTopic

#: Retention must not remove records.
KEEP_EVERYTHING = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


def new_topics(topics: Mapping[str, TopicSpec]) -> list[NewTopic]:
    """Return the request for each topic; retention keeps every record unless settings change it."""
    return [_new_topic(name, topic) for name, topic in topics.items()]


def _new_topic(name: str, topic: TopicSpec) -> NewTopic:
    from confluent_kafka.admin import NewTopic

    settings = {key: setting_text(value) for key, value in topic.settings.items()}
    replicas: dict[str, Any] = (
        {"replica_assignment": [list(brokers) for brokers in topic.assignment]}
        if topic.assignment
        else {"replication_factor": topic.replication_factor}
    )
    return NewTopic(
        name, num_partitions=topic.partitions, config={**KEEP_EVERYTHING, **settings}, **replicas
    )


def partitions_of(topics: Mapping[str, TopicSpec]) -> list[tuple[str, int]]:
    """Return every partition of the topics."""
    return [(name, n) for name, topic in topics.items() for n in range(topic.partitions)]
