"""Helpers that inject and heal a fault on a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from ackproof.cluster.booted import KafkaCluster
from ackproof_faults import Fault, Guard, inject
from integration.command import clock
from waiting import until


def in_force(cluster: KafkaCluster, fault: Fault) -> Guard:
    """Inject a fault and require that it is verified."""
    guard = inject(fault, cluster.interfaces, clock=clock)
    assert guard.window.verified, guard.window.evidence
    return guard


def recover(
    cluster: KafkaCluster, guard: Guard, partitions: Sequence[tuple[str, int]] = ()
) -> None:
    """Heal the fault, and wait until it has recovered and the partitions have their full ISR."""
    guard.heal()
    # A second call is a no-op.
    guard.fault.heal(cluster.interfaces, guard.window.nodes, guard.done)
    until(guard.recovered, f"{guard.window.fault} did not recover")
    if partitions:  # not for all, because a broker may be down on purpose
        cluster.await_full_isr(partitions)
