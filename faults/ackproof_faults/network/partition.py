"""Two sets of nodes cannot reach each other, or one set cannot reach the other.

``peers`` is the other side: the other ``brokers``, the ``controllers`` (ZooKeeper nodes before
Kafka 3.3), the ``clients``, or node ids. A one-way cut also ends every TCP connection between the
two, but each side notices it differently: the side that receives nothing times out, the other side
continues to send.

A flapping link is cut and restored repeatedly, as with a loose cable: a container in each target's
network namespace installs and removes the rules in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.network._links import (
    CLIENTS,
    VERDICTS,
    Cut,
    Links,
    channels,
    client_ports,
    rules,
)
from ackproof_faults.network._nftables import ruleset, run_at_each
from ackproof_model.effects import Cuts, Effects


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
    proof: ClassVar[str] = "the target's rules are observed to be there, and not to be there"
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
