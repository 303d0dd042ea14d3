"""Random packets of a node are lost, inbound and outbound."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Fault
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_faults.interfaces.kernel import Need
from ackproof_faults.network._nftables import install, remove, run_at_each
from ackproof_faults.process._processes import running_nodes
from ackproof_model.effects import Effects, Slows


class PacketLoss(Fault):
    """Drop a share of all packets that the targets send and receive, at random."""

    requires: ClassVar[InterfaceNames] = ("metadata", "controllers", "processes", "network")
    disables: ClassVar[bool] = False
    explained: ClassVar[bool] = True
    traceless: ClassVar[bool] = True
    fault: Literal["packet_loss"] = "packet_loss"
    needs: ClassVar[tuple[Need, ...]] = (Need.NFTABLES, Need.RANDOM_DROP)
    proof: ClassVar[str] = "the kernel's counters: some of the target's packets were dropped"
    percent: int = Field(
        default=10, ge=1, le=99, description="how many of a hundred packets are dropped"
    )
    effects: ClassVar[Effects] = (Slows(),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Install the rules at each target, except for its loopback device."""
        drop = f"iif != lo numgen random mod 100 < {self.percent} counter drop"
        rules = [f"in {drop}", f"out {drop.replace('iif', 'oif')}"]
        install(cluster, self._table, dict.fromkeys(nodes, rules))

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        """Wait until a packet has been dropped; brokers send to each other all the time."""
        count = (
            f"for i in $(seq 50); do nft list table {self._table} || exit 1; "
            f"nft list table {self._table} | grep -q 'packets [1-9]' && break; sleep 0.2; done"
        )
        proofs = []
        for node, result in run_at_each(cluster, dict.fromkeys(nodes, count)).items():
            dropped = max(map(int, re.findall(r"packets (\d+)", result.output)), default=0)
            if not dropped:
                raise FaultError(f"no packet of node {node} was dropped within 10 s")
            proofs.append(f"node {node}: {dropped} packets dropped already")
        return Evidence.joined(proofs)

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None:
        running = running_nodes(cluster)
        remove(cluster, self._table, {node: () for node in nodes if node in running})

    @property
    def _table(self) -> str:
        return f"inet ackproof_{self.name}_{self.percent}"
