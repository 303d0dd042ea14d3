"""Kafka's own tool for hanging transactions, and an ordinary open one that it does not name.

A late record hangs on brokers before 3.6 only: `ci/catalogue B14` shows the tool naming it.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer

from ackproof.cluster.booted import KafkaCluster
from ackproof.cluster.hanging_transactions import HangingTransaction
from ackproof.errors import ClusterError
from waiting import until

pytestmark = pytest.mark.cluster

PLACE = ("orders", 0)


def test_an_open_transaction_does_not_hang_and_an_operator_can_abort_it(
    cluster: KafkaCluster,
) -> None:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": "left-open",
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("orders", b"x", partition=0)
    producer.flush(60)
    admin = cluster.admin
    (end,) = admin.write_end_markers([PLACE]).values()
    assert admin.stable_offsets([PLACE]) == {PLACE: end - 1}
    hanging = cluster.hanging_transactions
    assert hanging.find(["orders"]) == []

    opened = HangingTransaction(
        topic="orders",
        partition=0,
        producer_id=0,
        producer_epoch=0,
        coordinator_epoch=-1,
        start_offset=end - 1,
        last_at=datetime.now(UTC),
    )
    hanging.abort(opened)
    until(
        lambda: admin.stable_offsets([PLACE])[PLACE] > end,
        "the partition is not stable after the abort",
    )
    with pytest.raises(ClusterError, match="TransactionsCommand"):
        hanging.abort(opened)
    producer.abort_transaction(60)  # for the coordinator it is still open
