"""Clusters of real brokers for tests, each with its own name."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from uuid import uuid4

import pytest
from docker import DockerClient

from ackproof.cluster.booted import KafkaCluster, booted
from ackproof.containers import images
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.topics import TopicSpec
from waiting import until

#: A dead broker is fenced sooner than after 9 s. A slow one is not fenced, because a session has
#: many heartbeats.
NOTICED = {"broker.session.timeout.ms": 6000, "broker.heartbeat.interval.ms": 500}

#: Of the brokers that modules share: one more listener for clients leads through the Kafka proxy.
SPEC = ClusterSpec(listeners=["LINK"], proxied=["LINK"], settings=NOTICED)


def boot(
    engine: DockerClient, spec: ClusterSpec, *, kafka: str = DEFAULT_KAFKA
) -> AbstractContextManager[KafkaCluster]:
    """Boot a cluster of this version; it is removed at the end of the context."""
    return booted(
        spec,
        client=engine,
        image=images.ensure(kafka, client=engine).reference,
        run_id=f"test-{uuid4().hex[:8]}",
        kafka=kafka,
    )


def shared_or(own: str, request: pytest.FixtureRequest) -> KafkaCluster:
    """Return the shared brokers; for a slow test, which may need other nodes, a fixture's."""
    slow = request.node.get_closest_marker("slow") is not None
    found: KafkaCluster = request.getfixturevalue(own if slow else "cluster")
    return found


class SharedBrokers(ExitStack):
    """Three brokers with short sessions, for one module after another.

    What stays from module to module are internal topics, and what brokers and controllers count.
    """

    def __init__(self, engine: DockerClient) -> None:
        super().__init__()
        self._engine = engine
        self._cluster: KafkaCluster | None = None
        self._failures = 0

    def close(self) -> None:
        """Remove the brokers; the next test that asks for some gets new ones."""
        super().close()
        self._cluster = None

    def lend(self, *, failures: int) -> KafkaCluster:
        """Return the brokers with the topic orders (3 partitions, 3 replicas), without records.

        After a failure they are new ones: a failed test may have left anything.
        """
        if self._cluster is None or failures != self._failures:
            self.close()
            self._cluster = self.enter_context(boot(self._engine, SPEC))
        else:
            _delete_topics(self._cluster)
        self._failures = failures
        self._cluster.create_topics({"orders": TopicSpec(partitions=3)})
        return self._cluster


def _delete_topics(cluster: KafkaCluster) -> None:
    def own() -> set[str]:
        return {name for name, _ in cluster.partitions() if not name.startswith("__")}

    cluster.admin.delete_topics(sorted(own()))
    until(lambda: not own(), "topics of the previous module still exist")
    brokers = set(cluster.broker_ids())
    until(lambda: all(cluster.brokers_known_to(broker) == brokers for broker in brokers))
