from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from docker import DockerClient

from ackproof.harness.cluster import images
from ackproof.harness.cluster.cluster import KafkaCluster, booted
from ackproof.harness.cluster.engine import connect
from ackproof.harness.scenario import ClusterSpec, TopicSpec


@pytest.fixture(scope="session")
def engine() -> DockerClient:
    return connect()


@pytest.fixture(scope="session")
def image(engine: DockerClient) -> str:
    return images.ensure(client=engine).reference


@pytest.fixture(scope="module")
def cluster(engine: DockerClient, image: str) -> Iterator[KafkaCluster]:
    """Three brokers with the topic orders (3 partitions, 3 replicas), one cluster a module."""
    with booted(
        ClusterSpec(),
        client=engine,
        image=image,
        run_id=f"test-{uuid4().hex[:8]}",
        sidecar=lambda: images.ensure_sidecar(client=engine),
    ) as booted_cluster:
        booted_cluster.create_topics({"orders": TopicSpec(partitions=3)})
        yield booted_cluster


def clock() -> datetime:
    return datetime.now(UTC)
