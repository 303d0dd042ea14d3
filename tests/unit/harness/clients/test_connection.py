"""Producers of a topic with too few partitions, and requests of a group without a coordinator."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from ackproof.clients import connection
from ackproof.clients.connection import connect_producer, retry_group_request
from ackproof.errors import WorkloadError
from support.client_specs import producer_spec


@pytest.mark.parametrize("partitions", [4, 5])
def test_a_producer_needs_the_partitions_of_its_specification(tmp_path, monkeypatch, partitions):
    monkeypatch.setattr(connection, "TOPIC_S", 0.1)
    spec = producer_spec(
        tmp_path, records=1, partitions=partitions, settings={"test.mock.num.brokers": 1}
    )

    def connect():
        return connect_producer(spec, {}, on_error=lambda _: None, on_statistics=lambda _: None)

    if partitions == 5:
        with pytest.raises(WorkloadError, match="needs 5 partitions of 'orders', which has 4"):
            connect()
    else:
        assert "orders" in connect().list_topics().topics


class Broker:
    """Refuses once with each code, then answers."""

    def __init__(self, *codes):
        self.codes = list(codes)
        self.requests = 0

    def __call__(self):
        self.requests += 1
        if self.codes:
            raise KafkaException(KafkaError(self.codes.pop(0)))
        return ["offsets"]


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._WAIT_COORD,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    ],
)
def test_a_request_is_repeated_without_a_coordinator(code):
    broker = Broker(code, code)
    assert retry_group_request(broker) == ["offsets"]
    assert broker.requests == 3


@pytest.mark.parametrize(
    "code", [KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.ILLEGAL_GENERATION]
)
def test_a_permanent_refusal_is_not_repeated(code):
    broker = Broker(code)
    with pytest.raises(KafkaException):
        retry_group_request(broker)
    assert broker.requests == 1
