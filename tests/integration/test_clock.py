"""A broker's clock that jumps, seen in the timestamps that it gives records."""

from __future__ import annotations

import time
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from docker import DockerClient

from ackproof.faults import FaultError, inject
from ackproof.faults.clock import Clock
from ackproof.harness.cluster import images
from ackproof.harness.cluster.cluster import KafkaCluster, booted
from ackproof.harness.cluster_spec import ClusterSpec
from ackproof.harness.scenario import TopicSpec
from integration.command import clock

pytestmark = pytest.mark.cluster


def stamped_ahead(cluster: KafkaCluster, topic: str) -> float:
    """Return by how many seconds the leader stamps a record ahead of this host's clock."""
    found: list[float] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
    producer.produce(
        topic, b"x", on_delivery=lambda _, message: found.append(message.timestamp()[1] / 1000)
    )
    producer.flush(20)
    return found[0] - time.time()


def test_a_clock_jumps_and_is_set_right(engine: DockerClient, image: str) -> None:
    with booted(
        ClusterSpec(brokers=1, fake_clock=True),
        client=engine,
        image=image,
        run_id=f"test-{uuid4().hex[:8]}",
        sidecar=lambda: images.ensure_sidecar(client=engine),
    ) as cluster:
        stamps = {"message.timestamp.type": "LogAppendTime"}
        cluster.create_topics({"t": TopicSpec(replication_factor=1, settings=stamps)})  # type: ignore[arg-type]
        assert abs(stamped_ahead(cluster, "t")) < 5
        for written, ahead in (("60m", 3600.0), ("-30m", -1800.0)):
            one = Clock.model_validate({"fault": "clock", "target": 1, "ahead": written})
            with pytest.raises(FaultError, match=r"is .* s ahead, not"):
                one.verify(cluster, [1])
            with inject(one, cluster, clock=clock) as guard:
                assert guard.window.verified, guard.window.evidence
                assert stamped_ahead(cluster, "t") == pytest.approx(ahead, abs=5)
            assert guard.recovered()
            assert abs(stamped_ahead(cluster, "t")) < 5


def test_a_clock_that_cannot_move_is_no_fault(cluster: KafkaCluster) -> None:
    with inject(Clock(target=1, ahead=60), cluster, clock=clock) as guard:
        assert not guard.window.verified
        assert "set cluster.fake_clock" in guard.window.evidence
