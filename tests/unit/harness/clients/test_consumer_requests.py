"""What a consumer does when its group has no coordinator yet."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from ackproof.clients.consumer import answered


class Broker:
    """Refuses as often as there are codes, then answers."""

    def __init__(self, *codes):
        self.codes = list(codes)
        self.asked = 0

    def __call__(self):
        self.asked += 1
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
def test_a_group_without_a_coordinator_is_asked_again(code):
    broker = Broker(code, code)
    assert answered(broker) == ["offsets"]
    assert broker.asked == 3


@pytest.mark.parametrize(
    "code", [KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.ILLEGAL_GENERATION]
)
def test_a_refusal_that_stays_is_not_repeated(code):
    broker = Broker(code)
    with pytest.raises(KafkaException):
        answered(broker)
    assert broker.asked == 1
