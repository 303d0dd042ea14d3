"""The arms of a conformance test.

librdkafka on its mock cluster and on real brokers; the Java client on real brokers only, because it
cannot talk to the mock cluster; another version of librdkafka on real brokers.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from docker import DockerClient

from conformance.arms import (
    JAVA,
    JAVA_CLIENT,
    MOCK,
    OTHER,
    OTHER_LIBRDKAFKA,
    PARTITIONS,
    REAL,
    WITHIN,
)
from conformance.kafka_classes import VERSIONS, Oracle

_topics = (f"conformance-{os.getpid()}-{number}" for number in itertools.count())


@pytest.fixture
def mock_bootstrap() -> Iterator[str]:
    """A mock cluster without members of groups: after one has left, the next waits for 30 s."""
    cluster = Producer({"test.mock.num.brokers": 3, "bootstrap.servers": "mock"})
    brokers = cluster.list_topics(timeout=60).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    cluster.close()


@pytest.fixture(params=[MOCK, REAL, JAVA, OTHER])
def arm(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def bootstrap(request: pytest.FixtureRequest, arm: str) -> str:
    return request.getfixturevalue("mock_bootstrap" if arm == "mock" else "kafka_bootstrap")


@pytest.fixture
def java(arm: str) -> str | None:
    """The version of kafka-clients; None for librdkafka."""
    return JAVA_CLIENT if arm == "java" else None


@pytest.fixture
def librdkafka(arm: str) -> str | None:
    """The version of librdkafka; None for the installed one."""
    return OTHER_LIBRDKAFKA if arm == "other librdkafka" else None


@pytest.fixture
def topic(request: pytest.FixtureRequest, bootstrap: str) -> str:
    name = next(_topics)
    if request.node.get_closest_marker("cluster"):
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(name, PARTITIONS)])[name].result(WITHIN)
    return name


@pytest.fixture(scope="session", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """A version whose own classes are asked."""
    asked: str = request.param
    return asked


@pytest.fixture(scope="session")
def oracle(
    engine: DockerClient, version: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Oracle]:
    with Oracle(engine, version, tmp_path_factory.mktemp("oracle")) as asked:
        yield asked
