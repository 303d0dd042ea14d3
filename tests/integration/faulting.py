"""A cluster booted for tests of faults, and a fault put into force on it and healed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from docker import DockerClient

from ackproof.faults import Fault, Guard, inject
from ackproof.harness.cluster import images
from ackproof.harness.cluster.cluster import KafkaCluster, booted
from ackproof.harness.cluster.versions import DEFAULT_KAFKA
from ackproof.harness.cluster_spec import ClusterSpec
from ackproof.harness.errors import ClusterError
from ackproof.harness.waits import wait_for
from integration.command import clock

T = TypeVar("T")

#: Settings with which a broker that is gone is missed sooner than after 9 s, but not one that is
#: merely slow: it has many heartbeats in a session.
NOTICED = {"broker.session.timeout.ms": 6000, "broker.heartbeat.interval.ms": 500}


def boot(
    engine: DockerClient,
    image: str,
    spec: ClusterSpec,
    *,
    kafka: str = DEFAULT_KAFKA,
    logs: Path | None = None,
) -> AbstractContextManager[KafkaCluster]:
    """Boot a cluster under a name of its own; leaving it removes it."""
    return booted(
        spec,
        client=engine,
        image=image,
        run_id=f"test-{uuid4().hex[:8]}",
        sidecar=lambda: images.ensure_sidecar(client=engine),
        kafka=kafka,
        logs=logs,
    )


def until(look: Callable[[], T], problem: str = "it never came true") -> T:
    """Wait until `look` returns something true, and return that."""
    return wait_for(look, bool, within_s=90, failure=lambda _: ClusterError(problem))


def in_force(cluster: KafkaCluster, fault: Fault) -> Guard:
    """Inject a fault that is to be verified."""
    guard = inject(fault, cluster, clock=clock)
    assert guard.window.verified, guard.window.evidence
    return guard


def recover(cluster: KafkaCluster, guard: Guard, places: Sequence[tuple[str, int]] = ()) -> None:
    """Heal it, twice, and wait until it says that all is well, and these places are in sync."""
    guard.heal()
    guard.fault.heal(cluster, guard.window.nodes)  # twice is a no-op
    until(guard.recovered, f"{guard.window.fault} did not recover")
    if places:  # elsewhere a broker may be down on purpose
        cluster.await_full_isr(places)
