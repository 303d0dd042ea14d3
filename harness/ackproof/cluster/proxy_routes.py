"""How clients and nodes reach a node's proxied listeners: through the link proxy."""

from __future__ import annotations

from ackproof.cluster.node import KafkaNode
from ackproof.cluster.topology import Topology
from ackproof.proxy.proxy import Route


def routes(node: KafkaNode, topology: Topology) -> list[Route]:
    """Return how the node's proxied listeners are reached through the proxy."""
    spec = node.spec
    clients = [
        Route(
            broker=spec.node_id,
            listen=("127.0.0.1", spec.further_ports[listener]),
            forward=("127.0.0.1", port),
        )
        for listener, port in spec.behind_ports.items()
    ]
    nodes = [
        Route(
            broker=spec.node_id,
            listen=(topology.gateway, port),
            forward=(node.address, topology.port(listener)),
        )
        for listener, port in spec.gateway_ports.items()
    ]
    return clients + nodes
