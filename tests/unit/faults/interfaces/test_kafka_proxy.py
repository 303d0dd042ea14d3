"""The names of Kafka's requests stand beside their keys."""

from __future__ import annotations

from typing import get_args

from ackproof_faults.interfaces.kafka_proxy import (
    API_KEYS,
    BETWEEN_BROKERS,
    TO_CONTROLLERS,
    Api,
)


def test_every_request_that_a_rule_may_name_has_a_key_of_its_own():
    assert set(get_args(Api)) == set(API_KEYS)
    assert len(set(API_KEYS.values())) == len(API_KEYS)


def test_requests_between_nodes_are_among_them_and_go_one_way():
    assert set(API_KEYS) > TO_CONTROLLERS | BETWEEN_BROKERS
    assert not TO_CONTROLLERS & BETWEEN_BROKERS
