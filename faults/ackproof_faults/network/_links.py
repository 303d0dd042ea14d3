"""The base of faults that cut links."""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.errors import FaultError
from ackproof_faults.evidence import Evidence
from ackproof_faults.fault import Fault, Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_faults.interfaces.kernel import Need
from ackproof_faults.network import _nftables
from ackproof_faults.network._cuts import CLIENTS, Cut, rules, verify_cut
from ackproof_faults.process._nodes import running_nodes

VERDICTS = {"drop": "drop", "reject": "reject with tcp reset"}


def not_behind_proxy(name: str, shape: Shape) -> Iterator[Problem]:
    """Yield listeners between nodes that lead through the Kafka proxy: no link is there to cut."""
    if inside := sorted({"INTERNAL", "CONTROLLER"} & set(shape.proxied)):
        yield (
            "fault",
            f"{name!r} cuts links between nodes, but {', '.join(inside)} leads through the Kafka "
            "proxy: use 'link', or remove it from cluster.proxied",
        )


class Links(Fault):
    """A fault that cuts links; `cuts` says which."""

    requires: ClassVar[InterfaceNames] = ("metadata", "controllers", "processes", "network")
    needs: ClassVar[tuple[Need, ...]] = (Need.NFTABLES, Need.REJECT)
    explained: ClassVar[bool] = True
    traceless: ClassVar[bool] = True
    proof: ClassVar[str] = (
        "connections over every cut link fail, tried from the other end; others are accepted"
    )
    how: Literal["drop", "reject"] = Field(
        default="drop",
        description="drop: packets vanish, and connections hang; reject: they are reset at once",
    )

    @abstractmethod
    def cuts(self, cluster: Cluster, nodes: Sequence[int]) -> Sequence[Cut]:
        """Return every link that is cut."""

    @property
    def table(self) -> str:
        """The nftables table of this fault, different from that of any other."""
        return f"inet ackproof_{self.name}_{zlib.crc32(self.model_dump_json().encode()):08x}"

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from not_behind_proxy(self.name, shape)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        cuts = self.cuts(cluster, nodes)
        if not cuts:
            raise FaultError("there is no link between these nodes to cut")
        _nftables.install(cluster, self.table, rules(cluster, cuts, VERDICTS[self.how]))

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        return verify_cut(cluster, self.cuts(cluster, nodes))

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None:
        stalled: dict[int, set[str]] = {node: set() for node in running_nodes(cluster)}
        for cut in self.cuts(cluster, nodes):
            for node, peer in ((cut.source, cut.sink), (cut.sink, cut.source)):
                if node in stalled and peer != CLIENTS:
                    stalled[node].add(f"dst {cluster.network.address(peer)}")
        _nftables.remove(cluster, self.table, {node: sorted(own) for node, own in stalled.items()})

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: None) -> bool:
        """Whether every running broker is unfenced and in every ISR."""
        return all(
            cluster.metadata.in_sync(broker)
            for broker in cluster.metadata.broker_ids()
            if cluster.processes.exit_status(broker) is None
        )
