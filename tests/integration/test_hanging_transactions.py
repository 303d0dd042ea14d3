"""Kafka's own tool for hanging transactions, and an ordinary open one that it does not name.

A late record hangs on brokers before 3.6 only: `ci/lab/catalogue B14` shows the tool naming it. A
committed transaction hangs if its marker is lost (KAFKA-20716): the harness aborts it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from docker import DockerClient
from rich.console import Console

from ackproof.cluster.booted import KafkaCluster
from ackproof.cluster.hanging_transactions import HangingTransaction
from ackproof.errors import ClusterError
from ackproof.execution import runner
from ackproof.progress import ConsoleReporter
from ackproof.scenario.loader import load
from waiting import until

pytestmark = pytest.mark.cluster

PLACE = ("orders", 0)


@pytest.mark.slow
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


#: Each partition has one record. Broker 2 stops with those of six, and is elected uncleanly after
#: broker 1 has stopped, which acked the others and the COMMIT markers of the first eight.
MARKER_LOST = """
version: 1
name: commit-marker-lost
cluster:
  settings: {broker.session.timeout.ms: 3000, broker.heartbeat.interval.ms: 500}
topics:
  orders:
    assignment: ASSIGNMENT
    settings: {min.insync.replicas: 1, unclean.leader.election.enable: true}
workload:
  topic: orders
  rate: 2/s
  records: 16
  tail: 1
  seconds: 120
  settings: {acks: all, enable.idempotence: true, linger.ms: 0, delivery.timeout.ms: 60000}
  transactions: {size: 8, timeout: 60s}
faults:
  - {fault: kill, target: 2, id: follower, when: 6 acked, heal_when: crash began}
  - {fault: kill, target: 1, id: crash, when: ["isr of orders-0 is {1}", 5 more acked],
     heal_when: leader of orders-0 == 2, heal_after: 15s}
expect: {loss: some, hanging_transaction: some, cause: B4}
""".replace("ASSIGNMENT", str([[1, 2]] * 16))


@pytest.mark.slow
def test_a_commit_marker_lost_in_an_unclean_election_is_no_late_abort(
    engine: DockerClient, tmp_path: Path
) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(MARKER_LOST)
    reporter = ConsoleReporter(Console(stderr=True))
    _, verdict = runner.run(load(path)[0], out=tmp_path / "runs", client=engine, reporter=reporter)
    assert verdict.verdict == "holds", verdict.reason
    assert {cause.case for cause in verdict.causes} == {"B4"}
    aborted = [one for one in verdict.causes if "until ackproof aborted it" in one.sentence]
    assert sum(one.count for one in aborted) == verdict.observed["hanging-transaction"]
    assert verdict.observed["lost"] > 0
