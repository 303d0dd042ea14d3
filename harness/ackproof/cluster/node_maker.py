"""What every node of one cluster is made with, those that are added later too."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ackproof.cluster.network import ClusterNetwork
from ackproof.cluster.node import KafkaNode
from ackproof.cluster.topology import NodeSpec, Topology


@dataclass(slots=True, kw_only=True)
class NodeMaker:
    """What every node of a cluster is made with.

    `more_ports` reserves so many ports of 127.0.0.1 for as long as the cluster is there. `clock` is
    the preload of clocks of their own (`own_clock`), empty if brokers go by the machine's.
    """

    image: str
    run_id: str
    checkpoint: bytes
    network: ClusterNetwork
    more_ports: Callable[[int], list[int]]
    clock: bytes = b""
    addresses: Iterator[int] = field(default_factory=itertools.count)

    def make(
        self,
        spec: NodeSpec,
        topology: Topology,
        *,
        image: str | None = None,
        address: str | None = None,
    ) -> KafkaNode:
        """Return a node, not yet booted, on its own image and address if they are given."""
        return KafkaNode(
            spec,
            topology,
            image=image or self.image,
            run_id=self.run_id,
            checkpoint=self.checkpoint,
            network=self.network,
            address=address or self.network.address(next(self.addresses)),
            clock=self.clock if spec.role == "broker" else b"",
        )
