"""The processes of nodes, their exit statuses, and the base of faults that end them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ackproof_faults.evidence import FaultError
from ackproof_faults.fault import Fault
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames

#: 128 + SIGKILL: what the container engine reports for a process that signal 9 ended.
SIGKILLED = 137
#: 128 + SIGTERM: the exit status of a JVM that ran its shutdown hooks after SIGTERM.
SIGTERMED = 143


def all_nodes(cluster: Cluster) -> list[int]:
    """Return the node ids of brokers and controllers, ascending."""
    return sorted({*cluster.metadata.broker_ids(), *cluster.controllers.ids()})


def running_nodes(cluster: Cluster) -> list[int]:
    """Return the nodes whose process runs; a stopped container has no network namespace."""
    return [node for node in all_nodes(cluster) if cluster.processes.exit_status(node) is None]


def require_running(cluster: Cluster, nodes: Sequence[int]) -> None:
    """Raise FaultError if the process of one of the nodes has ended."""
    for node in nodes:
        if cluster.processes.exit_status(node) is not None:
            raise FaultError(f"node {node} was already down: the fault needs a running process")


def kill_all(cluster: Cluster, nodes: Sequence[int]) -> None:
    """Send SIGKILL to every node; raise FaultError if one is already down."""
    require_running(cluster, nodes)
    for node in nodes:
        cluster.processes.kill(node)


def require_sigkilled(cluster: Cluster, nodes: Sequence[int]) -> None:
    """Raise FaultError unless SIGKILL ended the process of every node."""
    for node in nodes:
        status = cluster.processes.exit_status(node)
        if status is None:
            raise FaultError(f"node {node} still runs after SIGKILL")
        if status != SIGKILLED:
            raise FaultError(
                f"node {node} ended with exit status {status}, not by SIGKILL ({SIGKILLED})"
            )


class Ended(Fault):
    """A fault that stops its targets; heal starts them with their identity and data."""

    requires: ClassVar[InterfaceNames] = ("metadata", "processes")
    occupies = "process"

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: object) -> None:
        for node in nodes:
            cluster.processes.start(node)
