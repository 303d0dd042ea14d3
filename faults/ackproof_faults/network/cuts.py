"""Cuts between brokers: one is isolated, the cluster is split, or only some pairs reach each other.

`isolate` cuts a node off from all brokers, controllers and clients; the others leave clients alone.
`split` separates the targets from all other brokers; the controllers are on the side given by
``controllers``, or reach both. `bridge` assigns the other brokers to two halves in the order of
their ids, which are connected only through the target. In `majorities_ring` (Jepsen's) the brokers
form a ring by their ids; each receives packets only from its neighbours, so that every broker
reaches a majority, and no two reach the same one. It needs four brokers: with three, every pair
would lose one direction, and so every connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.targets import Target
from ackproof_faults.evidence import FaultError
from ackproof_faults.fault import Problem, Shape, untargeted
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


class Split(Links):
    """Cut the targets off from all other brokers, and optionally from the controllers."""

    fault: Literal["split"] = "split"
    controllers: Literal["targets", "others", "both"] = Field(
        default="others", description="which side the controllers stay connected with"
    )

    @property
    def effects(self) -> Effects:
        between = Cuts(channels=("replication",))
        match self.controllers:
            case "both":
                return (between,)
            case "others":
                return (between, Cuts(channels=("controllers",)))
            case "targets":
                return (between, Cuts(channels=("controllers",), nodes="others"))

    def cuts(self, cluster: Cluster, nodes: Sequence[int]) -> Sequence[Cut]:
        targets, others = set(nodes), set(cluster.metadata.broker_ids()) - set(nodes)
        controllers = set(cluster.controllers.ids()) - targets - others
        targets |= controllers if self.controllers == "targets" else set()
        others |= controllers if self.controllers == "others" else set()
        return [
            cut
            for one in sorted(targets)
            for other in sorted(others)
            for cut in both_ways(one, other)
        ]


class Bridge(Links):
    """Cut the other brokers into two halves; the target, one broker, reaches both."""

    fault: Literal["bridge"] = "bridge"
    effects: ClassVar[Effects] = (Cuts(channels=("replication",), some=True, nodes="others"),)

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from super().problems(shape)
        if len(shape.brokers) < 3:
            yield "fault", f"a bridge needs 3 brokers or more, not {len(shape.brokers)}"
        if self.target.role == "all" or len(self.target.brokers) > 1:
            yield "target", "the target of a bridge is one broker"

    def cuts(self, cluster: Cluster, nodes: Sequence[int]) -> Sequence[Cut]:
        if len(nodes) != 1:
            raise FaultError(f"the target of a bridge is one broker, not {list(nodes)}")
        rest = [broker for broker in cluster.metadata.broker_ids() if broker not in nodes]
        half = len(rest) // 2
        return [
            cut for one in rest[:half] for other in rest[half:] for cut in both_ways(one, other)
        ]


_FEWEST = 4


class MajoritiesRing(Links):
    """Cut links so that every broker reaches a majority of its own."""

    fault: Literal["majorities_ring"] = "majorities_ring"
    target: Target = untargeted("all: the ring consists of every broker")
    effects: ClassVar[Effects] = (Cuts(channels=("replication",), some=True),)

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from super().problems(shape)
        if len(shape.brokers) < _FEWEST:
            yield "fault", f"a majorities ring needs {_FEWEST} brokers, not {len(shape.brokers)}"
        if self.target.role != "all":
            yield "target", "a ring consists of all brokers: leave the target out"

    def cuts(self, cluster: Cluster, nodes: Sequence[int]) -> Sequence[Cut]:
        ring = list(cluster.metadata.broker_ids())
        return [
            Cut(source=other, sink=broker)
            for index, broker in enumerate(ring)
            for other in sorted(set(ring) - majority(ring, index))
        ]


def majority(ring: Sequence[int], index: int) -> set[int]:
    """Return the majority that the member at `index` reaches, itself in the middle."""
    size = len(ring) // 2 + 1
    first = index - (size - 1) // 2
    return {ring[(first + step) % len(ring)] for step in range(size)}
