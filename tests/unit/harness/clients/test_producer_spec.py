"""A specification survives the file it travels in."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.clients.specs import ProducerSpec

VALID = {
    "run_id": "run",
    "number": 3,
    "topic": "orders",
    "partitions": 2,
    "bootstrap_servers": "localhost:1",
    "progress": Path("/p"),
    "ledger": Path("/l"),
    "records": 1,
}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"ledger": None, "rate": 0.5, "seconds": 2.5, "parent": 17},
        {"window": 1, "largest": 1000, "seed": 3, "keys": 5},
        {"settings": {"acks": "all", "linger.ms": 5, "enable.idempotence": True}},
    ],
)
def test_json_round_trip(fields):
    spec = ProducerSpec(**VALID | fields)
    assert ProducerSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"acks": "all"}, True),
        ({"acks": 1}, True),
        ({"acks": 0}, False),
        ({"acks": "0"}, False),
    ],
)
def test_acks_have_offsets_unless_acks_is_0(settings, expected):
    assert ProducerSpec(**VALID | {"settings": settings}).acks_have_offsets is expected


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({}, 300),
        ({"delivery.timeout.ms": 20_000}, 20),
        ({"message.timeout.ms": "1500"}, 1.5),
        ({"delivery.timeout.ms": 0}, 300),
    ],
)
def test_the_delivery_timeout_is_read_by_either_name(settings, seconds):
    assert ProducerSpec(**VALID | {"settings": settings}).delivery_timeout_s == seconds
