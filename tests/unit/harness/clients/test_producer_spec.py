"""A specification survives the file it travels in, and an impossible one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.clients.spec import ProducerSpec
from ackproof.errors import WorkloadError

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
def test_it_survives_json(fields):
    spec = ProducerSpec(**VALID | fields)
    assert ProducerSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, True),
        ({"acks": "all"}, True),
        ({"acks": 1}, True),
        ({"acks": 0}, False),
        ({"acks": "0"}, False),
    ],
)
def test_an_ack_says_where_the_record_stands_unless_it_is_none(settings, told):
    assert ProducerSpec(**VALID | {"settings": settings}).offsets_are_told is told


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"partitions": 0}, "partitions is 0"),
        ({"size": 31}, "at least 32"),
        ({"rate": 0}, "rate is 0"),
        ({"records": -1}, "records is -1"),
        ({"records": None}, "never end"),
        ({"window": 0}, "window is 0"),
        ({"window": 1, "ledger": None}, "a window without a ledger"),
        ({"partition": 2}, "partition is 2, and must be below 2"),
        ({"partition": 1, "keys": 3}, "partition and keys"),
        ({"largest": 127}, "largest is 127, and must be 128 or more"),
        ({"largest": 999_990}, "message.max.bytes lets only values of 999968 pass"),
        ({"largest": 200, "settings": {"message.max.bytes": 190}}, "only values of 158"),
    ],
)
def test_an_impossible_one_is_refused_with_the_value_and_what_is_legal(fields, says):
    with pytest.raises(WorkloadError, match=says):
        ProducerSpec(**VALID | fields)


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
