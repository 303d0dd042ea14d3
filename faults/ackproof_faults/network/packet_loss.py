"""Random packets of a node get lost, on their way in and on their way out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Fault
from ackproof_faults.interfaces.kernel import Need
from ackproof_faults.network import _links


class PacketLoss(Fault):
    """Drop a share of all packets that the targets send and receive, at random."""

    name: ClassVar[str] = "packet_loss"
    disables: ClassVar[bool] = False
    fault: Literal["packet_loss"] = "packet_loss"
    needs: ClassVar[tuple[Need, ...]] = (Need.NFTABLES, Need.RANDOM_DROP)
    proof: ClassVar[str] = "the kernel's counters: some of the target's packets were dropped"
    percent: int = Field(default=10, ge=1, le=99, description="how many of a hundred are dropped")

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Install the rules at each target, for all but its own loopback."""
        drop = f"iif != lo numgen random mod 100 < {self.percent} counter drop"
        lines = [f"in {drop}", f"out {drop.replace('iif', 'oif')}"]
        _links.install(cluster, self._table, dict.fromkeys(nodes, lines))

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Wait until a packet has been dropped; brokers talk to each other all the time."""
        count = (
            f"for i in $(seq 50); do nft list table {self._table} || exit 1; "
            f"nft list table {self._table} | grep -q 'packets [1-9]' && break; sleep 0.2; done"
        )
        proofs = []
        for node, result in _links.each(cluster, dict.fromkeys(nodes, count)).items():
            dropped = max(map(int, re.findall(r"packets (\d+)", result.output)), default=0)
            if not dropped:
                raise FaultError(f"no packet of node {node} was dropped within 10 s")
            proofs.append(f"node {node}: {dropped} packets dropped already")
        return "; ".join(proofs)

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Remove the rules."""
        alive = set(_links.running(cluster))
        _links.remove(cluster, self._table, {node: () for node in nodes if node in alive})

    @property
    def _table(self) -> str:
        return f"inet ackproof_{self.name}_{self.percent}"
