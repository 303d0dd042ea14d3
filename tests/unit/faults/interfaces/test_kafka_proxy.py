"""The names and keys of Kafka's requests."""

from __future__ import annotations

from typing import get_args

from ackproof_faults.interfaces.kafka_proxy import (
    API_KEYS,
    BETWEEN_BROKERS,
    TO_CONTROLLERS,
    Api,
)


def test_every_api_has_a_unique_key():
    assert set(get_args(Api)) == set(API_KEYS)
    assert len(set(API_KEYS.values())) == len(API_KEYS)


def test_apis_between_nodes_are_known_and_have_one_receiver():
    assert set(API_KEYS) > TO_CONTROLLERS | BETWEEN_BROKERS
    assert not TO_CONTROLLERS & BETWEEN_BROKERS
