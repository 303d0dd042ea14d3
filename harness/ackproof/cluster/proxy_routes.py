"""The routes of clients and nodes through the Kafka proxy to a node's proxied listeners."""

from __future__ import annotations

from ackproof.cluster.node import KafkaNode
from ackproof.cluster.topology import Topology
from ackproof.proxy.proxy import LinkProxy, Route


def add(proxy: LinkProxy, node: KafkaNode, topology: Topology) -> None:
    """Let the proxy listen for connections to the node's proxied listeners."""
    spec = node.spec
    for listener, port in spec.behind_ports.items():
        proxy.add_route(
            Route(
                broker=spec.node_id,
                listen=("127.0.0.1", spec.further_ports[listener]),
                forward=("127.0.0.1", port),
            )
        )
    for listener, port in spec.gateway_ports.items():
        proxy.add_route(
            Route(
                broker=spec.node_id,
                listen=(topology.gateway, port),
                forward=(node.address, topology.port(listener)),
            )
        )
