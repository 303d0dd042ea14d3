"""A scenario's topics as requests to Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ackproof.cluster.admin import new_topic
from ackproof.cluster.topology import kafka_text
from ackproof.scenario.model import TopicSpec

if TYPE_CHECKING:
    from confluent_kafka.admin import NewTopic

#: Retention must not remove records.
_KEEP_EVERYTHING = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


def new_topics(topics: Mapping[str, TopicSpec]) -> list[NewTopic]:
    """Return the request for each topic; retention keeps every record unless settings change it."""
    return [
        new_topic(
            name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            settings={
                **_KEEP_EVERYTHING,
                **{key: kafka_text(value) for key, value in topic.settings.items()},
            },
            assignment=topic.assignment,
        )
        for name, topic in topics.items()
    ]


def partitions_of(topics: Mapping[str, TopicSpec]) -> list[tuple[str, int]]:
    """Return every partition of the topics."""
    return [(name, n) for name, topic in topics.items() for n in range(topic.partitions)]
