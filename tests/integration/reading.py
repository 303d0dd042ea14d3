"""Helpers that read a partition with a plain consumer."""

from __future__ import annotations

from confluent_kafka import Consumer, Message, TopicPartition

from ackproof.cluster.booted import KafkaCluster
from integration.sending import log_end
from waiting import until


def records(
    cluster: KafkaCluster, topic: str, *, partition: int = 0, first: int = 0
) -> list[Message]:
    """Return the records from offset `first` up to the high watermark, in order."""
    end = log_end(cluster, topic, partition)[0]
    consumer = _consumer(cluster)
    consumer.assign([TopicPartition(topic, partition, first)])
    read: list[Message] = []

    def all_read() -> bool:
        found = consumer.consume(10_000, timeout=1)
        assert all(one.error() is None for one in found), [one.error() for one in found][:1]
        read.extend(found)
        # A transaction marker may follow the last record; consumers do not receive it.
        return consumer.position([TopicPartition(topic, partition)])[0].offset >= end

    if first < end:
        until(all_read, f"{topic}-{partition} cannot be read up to {end}")
    consumer.close()
    return [one for one in read if one.offset() < end]


def log_start(cluster: KafkaCluster, topic: str, partition: int = 0) -> int:
    """Return the log start offset: records before it were deleted."""
    consumer = _consumer(cluster)
    first, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=60)
    consumer.close()
    return int(first)


def _consumer(cluster: KafkaCluster) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "independent",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
