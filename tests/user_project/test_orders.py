"""Tests of a user of ackproof: the shop, on brokers that fail."""

from __future__ import annotations

import harness
import pytest
from harness.shop import Shop

import ackproof as ap
from ackproof_faults import IsolateReplication, Kill, leader


@pytest.fixture
def kafka_cluster(cluster_factory):
    return cluster_factory(
        {"orders": ap.TopicSpec(partitions=1, settings={"min.insync.replicas": 2})}
    )


def test_the_package_harness_is_the_one_of_the_user() -> None:
    assert "user_project" in harness.__file__
    assert "user_project" not in ap.__file__


def test_orders_survive_the_death_of_a_leader_with_acks_all(chaos_run) -> None:
    shop = Shop(chaos_run.bootstrap_servers, acks="all", on_delivery=chaos_run.ledger.on_delivery)
    shop.order(200)
    with chaos_run.inject(Kill(target=leader("orders", 0))):
        shop.order(200)
        shop.close()
    result = chaos_run.ledger.verify()
    assert result.acked == 400


def test_orders_with_acks_1_do_not_survive_a_leader_without_followers(chaos_run) -> None:
    """Fails on purpose: the tests of ackproof check its evidence."""
    shop = Shop(chaos_run.bootstrap_servers, acks="1", on_delivery=chaos_run.ledger.on_delivery)
    shop.order(100)
    shop.close()
    with chaos_run.inject(IsolateReplication(target=leader("orders", 0))) as cut:
        shop.order(100)
        shop.close()
        with chaos_run.inject("kill", target="leader of orders-0"):
            cut.heal()
            shop.order(100)
            shop.close()
    chaos_run.ledger.verify()
