"""KAFKA-19012: from 2.8 on the Java producer reuses buffers of expired batches."""

from __future__ import annotations

import pytest

from ackproof.prediction.unmodelled import reused_buffers
from ackproof.scenario.model import Scenario


def scenario(client: object, *faults: dict[str, object]) -> Scenario:
    settings = {"acks": "all", "enable.idempotence": True}
    return Scenario.model_validate(
        {
            "version": 1,
            "name": "buffers",
            "topics": {"orders": {}},
            "workload": {"topic": "orders", "client": client, "settings": settings},
            "faults": list(faults),
        }
    )


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ("2.6.2", False),
        ("2.8.0", True),
        ("3.9.1", True),
        ("3.9.2", False),
        ("4.0.1", True),
        ("4.1.1", True),
        ("4.1.2", False),
        ("4.2.0", False),
    ],
)
def test_versions_from_2_8_until_the_fix_of_their_line_are_affected(version, affected):
    found = list(reused_buffers(scenario({"java": version}, {"fault": "pause", "target": 1})))
    assert [(str(anomaly), told.value) for anomaly, told, _ in found] == (
        [("phantom", "possible")] if affected else []
    )


def test_librdkafka_is_not_affected_and_no_batch_expires_without_a_fault():
    assert list(reused_buffers(scenario("librdkafka", {"fault": "pause", "target": 1}))) == []
    assert list(reused_buffers(scenario({"java": "3.9.1"}))) == []
    assert list(reused_buffers(scenario({"java": "3.9.1"}, {"fault": "none"}))) == []
