"""Cuts: sets of nodes do not reach each other, in both directions or in one.

`isolate` cuts a node off from all brokers, controllers and clients; the others leave clients alone.
`split` separates the targets from all other brokers; the controllers are on the side given by
``controllers``, or reach both. `bridge` assigns the other brokers to two halves in the order of
their ids, which are connected only through the target. In `majorities_ring` (Jepsen's) the brokers
form a ring by their ids; each receives packets only from its neighbours, so that every broker
reaches a majority, and no two reach the same one. It needs four brokers: with three, every pair
would lose one direction, and so every connection.

In `partition` and `flapping`, ``peers`` is the other side: the other ``brokers``, the
``controllers`` (ZooKeeper nodes before Kafka 3.3), the ``clients``, or node ids. A one-way cut also
ends every TCP connection between the two, but each side notices it differently: the side that
receives nothing times out, the other side continues to send. A flapping link is cut and restored
repeatedly, as with a loose cable: a container in each target's network namespace installs and
removes the rules in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.conditions.targets import Target
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Problem, Shape, untargeted
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.network._links import (
    CLIENTS,
    VERDICTS,
    Cut,
    Links,
    both_ways,
    channels,
    client_ports,
    rules,
    ruleset,
    run_at_each,
)
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


class Partition(Links):
    """Cut the targets off from other brokers, from controllers, from clients or from some nodes."""

    #: Whether the cut is removed and installed again repeatedly.
    repeated: ClassVar[bool] = False
    fault: Literal["partition"] = "partition"
    peers: Literal["brokers", "controllers", "clients"] | tuple[int, ...] = Field(
        default="brokers",
        description="the other side: brokers, controllers, clients, or a list of node ids",
        examples=["controllers", [2, 3]],
    )
    direction: Literal["both", "to_peers", "from_peers"] = Field(
        default="both", description="which packets are lost: all, those to the peers, or from them"
    )
    listener: str | None = Field(
        default=None,
        description="cut only connections to this listener, instead of all",
        examples=["INTERNAL", "EXTERNAL"],
    )

    @property
    def effects(self) -> Effects:
        cut = Cuts(channels=channels(self.peers, self.listener), direction=self.direction)
        some, resets = isinstance(self.peers, tuple), self.how == "reject"
        return (replace(cut, some=some, repeated=self.repeated, resets=resets),)

    def problems(self, shape: Shape) -> Iterator[Problem]:
        if self.peers != "clients":
            yield from super().problems(shape)
        if isinstance(self.peers, tuple):
            known = sorted({*shape.brokers, *shape.controllers})
            for node in self.peers:
                if node not in known:
                    yield "peers", f"there is no node {node} (nodes are {known})"
        if self.peers == "brokers" and len(shape.brokers) < 2:
            yield "peers", "there is one broker only: it has no other brokers to be cut off from"
        if self.listener is not None and self.listener not in shape.listeners:
            legal = ", ".join(shape.listeners)
            yield "listener", f"{self.listener!r} is not a listener here ({legal})"
        if self.peers == "clients" and self.listener in ("INTERNAL", "CONTROLLER"):
            yield "listener", f"clients do not use {self.listener}"

    def cuts(self, cluster: Cluster, nodes: Sequence[int]) -> Sequence[Cut]:
        """Return a cut for each pair of a target and a peer, in each direction that is lost."""
        port = cluster.network.port(self.listener) if self.listener else None
        pairs = [
            (node, peer, one)
            for node in nodes
            for peer in self._peers(cluster, nodes)
            for one in (client_ports(cluster, self.listener) if peer == CLIENTS else [port])
            if node != peer
        ]
        out = [Cut(source=node, sink=peer, port=one) for node, peer, one in pairs]
        back = [Cut(source=peer, sink=node, port=one) for node, peer, one in pairs]
        return (out if self.direction != "from_peers" else []) + (
            back if self.direction != "to_peers" else []
        )

    def _peers(self, cluster: Cluster, nodes: Sequence[int]) -> Sequence[int]:
        if isinstance(self.peers, tuple):
            return self.peers
        if self.peers == "clients":
            return [CLIENTS]
        if self.peers == "controllers":
            return cluster.controllers.ids()
        return [broker for broker in cluster.metadata.broker_ids() if broker not in nodes]


_SCRIPT = "flapping"


class Flapping(Partition):
    """Cut the targets off from their peers and reconnect them, in turn."""

    repeated: ClassVar[bool] = True
    fault: Literal["flapping"] = "flapping"  # type: ignore[assignment]
    proof = "the target's rules are observed to be there, and not to be there"
    up: Duration = Field(default=1.0, gt=0, description="how long the link works each time")
    down: Duration = Field(default=1.0, gt=0, description="how long it is cut each time")

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Start the script of each target; it begins with a cut."""
        own = rules(cluster, self.cuts(cluster, nodes), VERDICTS[self.how])
        for node in nodes:
            if node not in own:
                raise FaultError(f"node {node} has no link to cut, or is down")
            cluster.network.start(
                node,
                _SCRIPT,
                f"while :; do\nnft -f - <<'RULES'\n{ruleset(self.table, own[node])}\nRULES\n"
                f"sleep {self.down:g}\nnft delete table {self.table}\nsleep {self.up:g}\ndone",
            )

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        """Require that the rules of each target appear and disappear within one period."""
        watch = (
            f"for i in $(seq {int((self.up + self.down) * 10) + 10}); do "
            f"nft list table {self.table} >/dev/null 2>&1 && echo cut || echo joined; sleep 0.1; "
            "done | sort -u"
        )
        for node, result in run_at_each(cluster, dict.fromkeys(nodes, watch)).items():
            if result.output.split() != ["cut", "joined"]:
                raise FaultError(f"the link of node {node} is always {result.output.strip()}")
        return Evidence.joined(f"node {node}: cut and joined in turn" for node in nodes)

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None:
        for node in nodes:
            cluster.network.end(node, _SCRIPT)
        super().heal(cluster, nodes, done)
