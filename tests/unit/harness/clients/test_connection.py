"""Requests of a group that has no coordinator yet."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from ackproof.clients.connection import retry_group_request


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
