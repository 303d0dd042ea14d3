"""Helpers that inject a fault into a cluster and heal it."""

from __future__ import annotations

from collections.abc import Sequence

from ackproof.cluster.cluster import KafkaCluster
from ackproof_faults import Fault, Guard, inject
from integration.command import clock
from waiting import until


def in_force(cluster: KafkaCluster, fault: Fault) -> Guard:
    """Inject a fault and require that it is verified."""
    guard = inject(fault, cluster.interfaces, clock=clock)
    assert guard.window.verified, guard.window.evidence
    return guard


def recover(cluster: KafkaCluster, guard: Guard, places: Sequence[tuple[str, int]] = ()) -> None:
    """Heal the fault twice; wait until it has recovered and these partitions are in sync."""
    guard.heal()
    guard.fault.heal(
        cluster.interfaces, guard.window.nodes, guard._done
    )  # a second call is a no-op
    until(guard.recovered, f"{guard.window.fault} did not recover")
    if places:  # a test may keep a broker of other partitions down
        cluster.await_full_isr(places)
