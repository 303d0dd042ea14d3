"""The two arms of a conformance test: librdkafka's mock cluster, and real brokers."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from conformance.arms import PARTITIONS, WITHIN

_topics = (f"conformance-{os.getpid()}-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def mock_bootstrap() -> Iterator[str]:
    cluster = Producer({"test.mock.num.brokers": 3, "bootstrap.servers": "mock"})
    brokers = cluster.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    cluster.close()


@pytest.fixture(params=["mock", pytest.param("cluster", marks=pytest.mark.cluster)])
def bootstrap(request: pytest.FixtureRequest) -> str:
    name = "mock_bootstrap" if request.param == "mock" else "kafka_bootstrap"
    return request.getfixturevalue(name)


@pytest.fixture
def topic(request: pytest.FixtureRequest, bootstrap: str) -> str:
    name = next(_topics)
    if request.node.get_closest_marker("cluster"):
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(name, PARTITIONS)])[name].result(WITHIN)
    return name
