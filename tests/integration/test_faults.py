"""Every fault on real brokers: it bites, it is proved, it heals; and the proof can fail."""

from __future__ import annotations

import pytest

from ackproof.faults import Fault, FaultError, inject
from ackproof.faults.isolate_replication import IsolateReplication
from ackproof.faults.kill import Kill
from ackproof.faults.restart import Restart
from ackproof.harness.cluster.cluster import KafkaCluster
from integration.command import clock
from integration.sending import acked
from waiting import until

pytestmark = pytest.mark.cluster

PLACES = [("orders", n) for n in range(3)]


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
    cluster.await_full_isr(PLACES)
    with inject(fault, cluster, clock=clock) as guard:
        assert guard.window.verified, guard.window.evidence
        assert not guard.recovered()
    until(guard.recovered, "the fault did not heal")
    cluster.await_full_isr(PLACES)


@pytest.mark.parametrize("fault", [Kill(target=1), Restart(target=1), IsolateReplication(target=1)])
def test_a_fault_that_was_not_injected_is_not_verified(cluster: KafkaCluster, fault: Fault) -> None:
    with pytest.raises(FaultError):
        fault.verify(cluster, [1])


def test_cut_replication_stops_acks_all_and_not_acks_1(cluster: KafkaCluster) -> None:
    cluster.await_full_isr(PLACES)
    assert acked(cluster, "orders", partition=0)
    with inject(IsolateReplication(target="leader of orders-0"), cluster, clock=clock) as guard:
        assert guard.window.verified, guard.window.evidence
        assert not acked(cluster, "orders", partition=0, within_s=5)
        until(lambda: len(cluster.isr("orders", 0) or ()) == 3)  # nobody has noticed yet
        assert acked(cluster, "orders", partition=0, acks=1)
    assert acked(cluster, "orders", partition=0)


def test_a_cut_outlives_the_death_of_the_broker_it_isolates(cluster: KafkaCluster) -> None:
    cluster.await_full_isr(PLACES)
    cut = IsolateReplication(target="leader of orders-0")
    with inject(cut, cluster, clock=clock) as guard:
        (isolated,) = guard.window.nodes
        with inject(Kill(target=isolated), cluster, clock=clock):
            pass
        until(lambda: cluster.answers(isolated), "the broker did not come back")
        assert cut.verify(cluster, [isolated])
    cluster.await_full_isr(PLACES)
