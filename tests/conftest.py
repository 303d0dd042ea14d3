"""Fixtures shared by all tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ackproof.cluster.cluster import KafkaCluster
from ackproof.containers import images
from ackproof.containers.engine import connect
from ackproof.scenario.model import ClusterSpec, TopicSpec
from kafka_clusters import boot

#: A user's project with the pytest plugin; tests run it in a process of its own.
collect_ignore = ["user_project"]

if TYPE_CHECKING:
    from docker import DockerClient
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for all tests marked `spark`: starting one takes seconds."""
    from ackproof_spark.spark import connector
    from ackproof_spark.spark.session import session, stop, use

    # A process has one session: tests of warehouses share it with all others.
    for package in (connector.Package.DELTA, connector.Package.ICEBERG):
        if connector.jars(package):
            use(package)
    yield session()
    stop()


@pytest.fixture(scope="session")
def engine() -> DockerClient:
    """The container engine of this machine."""
    return connect()


@pytest.fixture(scope="session")
def image(engine: DockerClient) -> str:
    """A broker image of the default version."""
    return images.ensure(client=engine).reference


@pytest.fixture(scope="module")
def cluster(engine: DockerClient) -> Iterator[KafkaCluster]:
    """Three brokers with the topic orders (3 partitions, 3 replicas), one cluster a module."""
    with boot(engine, ClusterSpec()) as made:
        made.create_topics({"orders": TopicSpec(partitions=3)})
        yield made


@pytest.fixture(scope="module")
def kafka_bootstrap(cluster: KafkaCluster) -> str:
    """The bootstrap servers of the cluster."""
    return cluster.bootstrap_servers
