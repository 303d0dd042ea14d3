"""A node alone: no broker, no controller and no client reaches it, and it reaches nobody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.fault import Cluster
from ackproof_faults.network._links import (
    CLIENTS,
    Cut,
    Links,
    both_ways,
    client_ports,
    everyone,
)


class Isolate(Links):
    """Cut each target off from every other node and from all clients."""

    name: ClassVar[str] = "isolate"
    fault: Literal["isolate"] = "isolate"

    def cuts(self, cluster: Cluster, nodes: Sequence[int]) -> Sequence[Cut]:
        """Return both ways of every link of each target."""
        peers = [
            cut
            for node in nodes
            for peer in everyone(cluster)
            if peer != node
            for cut in both_ways(node, peer)
        ]
        clients = [
            cut
            for node in nodes
            for port in client_ports(cluster, None)
            for cut in both_ways(node, CLIENTS, port)
        ]
        return peers + clients
