"""A fault put into force on a cluster, and healed."""

from __future__ import annotations

from collections.abc import Sequence

from ackproof.cluster.cluster import KafkaCluster
from ackproof_faults import Fault, Guard, inject
from integration.command import clock
from waiting import until


def in_force(cluster: KafkaCluster, fault: Fault) -> Guard:
    """Inject a fault that is to be verified."""
    guard = inject(fault, cluster.interfaces, clock=clock)
    assert guard.window.verified, guard.window.evidence
    return guard


def recover(cluster: KafkaCluster, guard: Guard, places: Sequence[tuple[str, int]] = ()) -> None:
    """Heal it, twice, and wait until it says that all is well, and these places are in sync."""
    guard.heal()
    guard.fault.heal(cluster.interfaces, guard.window.nodes, guard._done)  # twice is a no-op
    until(guard.recovered, f"{guard.window.fault} did not recover")
    if places:  # elsewhere a broker may be down on purpose
        cluster.await_full_isr(places)
