"""Whether a consumer fetches from a follower, by librdkafka's statistics."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer

from ackproof.clients.connection import STATISTICS_MS
from ackproof.clients.consumer import followed_partitions
from unit.harness.clients.mock_cluster import mock_cluster
from waiting import until


@pytest.mark.parametrize("followed", [True, False])
def test_the_broker_that_is_fetched_from_is_told_from_the_leader(followed: bool) -> None:
    with mock_cluster() as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        producer.produce("orders", b"value", partition=0)
        producer.flush(60)
        leader = producer.list_topics("orders").topics["orders"].partitions[0].leader
        if followed:
            cluster.follow("orders", 0, leader % 3 + 1)
        followed_now: list[set[int]] = []
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "statistics.interval.ms": STATISTICS_MS,
                "stats_cb": lambda text: followed_now.append(followed_partitions(text, "orders")),
            }
        )
        consumer.subscribe(["orders"])
        read: list[object] = []

        def seen() -> bool:
            read.extend(filter(None, [consumer.poll(0.1)]))
            return bool(read) and any(followed_now) is followed and len(followed_now) > 9

        until(seen)
        consumer.close()
    assert ({0} in followed_now) is followed


def test_a_topic_or_a_leader_that_is_not_known_is_no_follower() -> None:
    assert followed_partitions('{"topics": {}}', "orders") == set()
    unknown = '{"topics": {"orders": {"partitions": {"0": {"broker": 2, "leader": -1}}}}}'
    assert followed_partitions(unknown, "orders") == set()
