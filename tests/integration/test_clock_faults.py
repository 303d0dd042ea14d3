"""Skewed clocks of brokers, observed in the timestamps of records, and healed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message, Producer
from docker import DockerClient

import node_actions
from ackproof.cluster.booted import KafkaCluster
from ackproof.containers import fake_clock
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.topics import TopicSpec
from ackproof_faults import FaultError
from ackproof_faults.process.skew_clock import DriftClock, SkewClock
from integration.faulting import in_force, recover
from integration.reading import log_start, records
from integration.sending import log_end, send
from kafka_clusters import NOTICED, boot
from waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def clocks(engine: DockerClient) -> Iterator[KafkaCluster]:
    """Two brokers with own clocks, which check retention every second."""
    if lack := fake_clock.problem(engine):
        pytest.skip(lack)
    settings = {**NOTICED, "log.retention.check.interval.ms": 1000, "log.initial.task.delay.ms": 0}
    spec = ClusterSpec(brokers=2, heap="128m", clock="adjustable", settings=settings)
    with boot(engine, spec) as cluster:
        yield cluster


def topic(cluster: KafkaCluster, **settings: object) -> str:
    """Return a new topic: partition 0 is led by broker 1, partition 1 by broker 2."""
    name = f"t-{uuid4().hex[:6]}"
    given = {"message.timestamp.type": "LogAppendTime", **settings}
    cluster.create_topics(
        {name: TopicSpec.model_validate({"assignment": [[1, 2], [2, 1]], "settings": given})}
    )
    return name


def stamped(cluster: KafkaCluster, topic: str) -> tuple[int, int]:
    """Return the deviation of the timestamps of brokers 1 and 2 in minutes."""
    found: dict[int, int] = {}

    def told(error: object, message: Message) -> None:
        assert error is None, error
        kind, stamp = message.timestamp()
        assert kind == TIMESTAMP_LOG_APPEND_TIME
        partition = message.partition()
        assert partition is not None
        found[partition] = round((stamp / 1000 - datetime.now(UTC).timestamp()) / 1800) * 30

    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for partition in (0, 1):
        producer.produce(topic, b"x", partition=partition, on_delivery=told)
    assert producer.flush(60) == 0
    producer.close()
    return found[0], found[1]


@pytest.mark.parametrize(("by", "minutes"), [("90m", 90), ("-90m", -90)])
def test_only_the_skewed_broker_writes_skewed_timestamps(
    clocks: KafkaCluster, by: str, minutes: int
) -> None:
    name = topic(clocks)
    places = [(name, 0), (name, 1)]
    assert stamped(clocks, name) == (0, 0)
    guard = in_force(clocks, SkewClock(target=1, by=by))
    assert stamped(clocks, name) == (minutes, 0)
    clocks.await_full_isr(places)
    recover(clocks, guard, places)
    assert stamped(clocks, name) == (0, 0)


def test_a_broker_with_a_slow_clock_refuses_timestamps_from_the_future(
    clocks: KafkaCluster,
) -> None:
    name = topic(clocks, **{"message.timestamp.type": "CreateTime"})
    with in_force(clocks, SkewClock(target=1, by="-90m")) as guard:
        assert send(clocks, name, partition=0) == "INVALID_TIMESTAMP"
        assert send(clocks, name, partition=1) == (1, 0)
    recover(clocks, guard)
    assert send(clocks, name, partition=0) == (0, 0)


def test_a_skewed_clock_outlives_a_restart(
    clocks: KafkaCluster,
) -> None:
    name = topic(clocks)
    guard = in_force(clocks, SkewClock(target=1, by="-90m"))
    node_actions.kill(clocks, 1)
    node_actions.start(clocks, 1)
    clocks.interfaces.operations.elect([(name, 0)], unclean=False)
    until(lambda: clocks.interfaces.metadata.leader(name, 0) == 1)
    assert stamped(clocks, name) == (-90, 0)
    recover(clocks, guard, [(name, 0), (name, 1)])
    assert stamped(clocks, name) == (0, 0)


def test_a_fast_clock_deletes_new_records_by_retention(clocks: KafkaCluster) -> None:
    name = topic(clocks, **{"retention.ms": 3_600_000, "message.timestamp.type": "CreateTime"})
    assert send(clocks, name, partition=0) == (0, 0)
    assert send(clocks, name, partition=1) == (1, 0)
    with in_force(clocks, SkewClock(target=1, by="90m")) as guard:
        until(lambda: log_start(clocks, name) == log_end(clocks, name)[0] == 1)
    recover(clocks, guard)
    assert len(records(clocks, name, partition=1)) == 1


def test_a_drifting_clock_is_set_right(clocks: KafkaCluster) -> None:
    name = topic(clocks)
    drift = DriftClock(target=1, per_minute="60s")
    with pytest.raises(FaultError, match="s ahead, not"):
        drift.verify(clocks.interfaces, [1], (datetime.now(UTC) - timedelta(seconds=9),) * 2)
    recover(clocks, in_force(clocks, drift), [(name, 0), (name, 1)])
    assert stamped(clocks, name) == (0, 0)


def test_a_clock_without_skew_is_not_verified(clocks: KafkaCluster) -> None:
    with pytest.raises(FaultError, match="ahead, not 5400 s"):
        SkewClock(target=1, by="90m").verify(clocks.interfaces, [1], None)
