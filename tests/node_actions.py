"""An operator's actions on nodes. Each waits until the other nodes have noticed it."""

from __future__ import annotations

from ackproof.cluster.nodes import ClusterNodes
from ackproof.cluster.readiness import await_fenced, await_in_sync, await_out_of_isr


def kill(cluster: ClusterNodes, broker: int) -> None:
    """Send SIGKILL, and wait until the broker is fenced and out of every ISR."""
    cluster.nodes[broker].kill()
    _await_absence(cluster, broker)


def start(cluster: ClusterNodes, broker: int) -> None:
    """Start a stopped broker, and wait until it is in sync."""
    cluster.nodes[broker].start_again()
    await_in_sync(cluster, broker)


def pause(cluster: ClusterNodes, broker: int) -> None:
    """Freeze the broker, and wait until it is fenced and out of every ISR."""
    cluster.nodes[broker].pause()
    _await_absence(cluster, broker)


def resume(cluster: ClusterNodes, broker: int) -> None:
    """Thaw a frozen broker, and wait until it is in sync."""
    cluster.nodes[broker].resume()
    await_in_sync(cluster, broker)


def _await_absence(cluster: ClusterNodes, broker: int) -> None:
    await_fenced(cluster, broker)
    if any(other != broker for other in cluster.running_brokers()):
        await_out_of_isr(cluster, broker)
