"""A node is cut off from all brokers, controllers and clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.network._links import CLIENTS, Cut, Links, both_ways, client_ports
from ackproof_faults.process._processes import all_nodes
from ackproof_model.effects import CHANNELS, Cuts, Effects


class Isolate(Links):
    """Cut each target off from every other node and from all clients."""

    fault: Literal["isolate"] = "isolate"

    @property
    def effects(self) -> Effects:
        return (Cuts(channels=CHANNELS, among=True, resets=self.how == "reject"),)

    def cuts(self, cluster: Cluster, nodes: Sequence[int]) -> Sequence[Cut]:
        peers = [
            cut
            for node in nodes
            for peer in all_nodes(cluster)
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
