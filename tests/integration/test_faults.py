"""Every fault on real brokers: it bites, it is proved, it heals; and the proof can fail."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from ackproof.faults import Fault, FaultError, inject
from ackproof.faults.isolate_replication import IsolateReplication
from ackproof.faults.kill import Kill
from ackproof.faults.restart import Restart
from ackproof.harness.cluster.cluster import KafkaCluster
from ackproof.harness.errors import ClusterError
from ackproof.harness.waits import wait_for
from integration.command import clock

pytestmark = pytest.mark.cluster


def acked(cluster: KafkaCluster, **settings: object) -> bool:
    """Whether one record to orders-0 is acked within five seconds."""
    outcome: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "delivery.timeout.ms": 5000,
            "log_level": 0,
            **settings,
        }
    )
    producer.produce(
        "orders", b"probe", partition=0, on_delivery=lambda error, _: outcome.append(error)
    )
    producer.flush(10)
    return len(outcome) == 1 and outcome[0] is None  # KafkaError cannot be compared to None


@pytest.mark.parametrize(
    "fault",
    [
        Kill(target="leader of orders-0"),
        Restart(target="leader of orders-0"),
        IsolateReplication(target="leader of orders-0"),
    ],
    ids=lambda fault: fault.name,
)
def test_a_fault_is_proved_and_heals(cluster: KafkaCluster, fault: Fault) -> None:
    places = [("orders", n) for n in range(3)]
    cluster.await_full_isr(places)
    with inject(fault, cluster, clock=clock) as guard:
        assert guard.window.verified, guard.window.evidence
        assert not guard.recovered()
    wait_for(
        guard.recovered,
        bool,
        within_s=90,
        failure=lambda _: ClusterError("the fault did not heal"),
    )
    cluster.await_full_isr(places)


@pytest.mark.parametrize("fault", [Kill(target=1), Restart(target=1), IsolateReplication(target=1)])
def test_a_fault_that_was_not_injected_is_not_verified(cluster: KafkaCluster, fault: Fault) -> None:
    with pytest.raises(FaultError):
        fault.verify(cluster, [1])


def test_cut_replication_stops_acks_all_and_not_acks_1(cluster: KafkaCluster) -> None:
    cluster.await_full_isr([("orders", n) for n in range(3)])
    assert acked(cluster, acks="all")
    with inject(IsolateReplication(target="leader of orders-0"), cluster, clock=clock) as guard:
        assert guard.window.verified, guard.window.evidence
        assert acked(cluster, acks=1)
        assert not acked(cluster, acks="all")
        assert len(cluster.isr("orders", 0)) == 3  # nobody has noticed yet
    assert acked(cluster, acks="all")


def test_a_cut_outlives_the_death_of_the_broker_it_isolates(cluster: KafkaCluster) -> None:
    cluster.await_full_isr([("orders", n) for n in range(3)])
    cut = IsolateReplication(target="leader of orders-0")
    with inject(cut, cluster, clock=clock) as guard:
        (isolated,) = guard.window.nodes
        with inject(Kill(target=isolated), cluster, clock=clock):
            pass
        wait_for(
            lambda: cluster.answers(isolated),
            bool,
            within_s=60,
            failure=lambda _: ClusterError("the broker did not come back"),
        )
        assert cut.verify(cluster, [isolated])
    cluster.await_full_isr([("orders", n) for n in range(3)])
