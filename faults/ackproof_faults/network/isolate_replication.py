"""Followers cannot reach a broker's INTERNAL listener; clients and the controller can.

Every other broker drops its packets to and from the target's INTERNAL port, in both directions, so
that neither a fetch that waits at the leader nor a new one is answered. The rules are not in the
target's network namespace: a kill of the target would end the fault there, and a restarted leader
could still hand over what it alone holds. The target itself still fetches from the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from ackproof_faults.errors import FaultError
from ackproof_faults.evidence import Evidence
from ackproof_faults.fault import Fault, Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_faults.interfaces.kernel import Need
from ackproof_faults.network import _nftables
from ackproof_faults.network._followers import followers, reaches, require_cut
from ackproof_faults.network._links import not_behind_proxy
from ackproof_model.effects import Cuts, Effects


class IsolateReplication(Fault):
    """Cut other brokers off from the targets' INTERNAL listener (replication), nothing else."""

    name: ClassVar[str] = "isolate_replication"
    requires: ClassVar[InterfaceNames] = ("metadata", "processes", "network")
    needs: ClassVar[tuple[Need, ...]] = (Need.NFTABLES,)
    explained: ClassVar[bool] = True
    traceless: ClassVar[bool] = True
    fault: Literal["isolate_replication"] = "isolate_replication"
    proof: ClassVar[str] = (
        "every other broker's connections to INTERNAL time out, and those to EXTERNAL do not"
    )

    @property
    def effects(self) -> Effects:
        return (Cuts(channels=("replication",), served=True),)

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from not_behind_proxy(self.name, shape)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        port = cluster.network.port("INTERNAL")
        for node, others in followers(cluster, nodes).items():
            address = cluster.network.address(node)
            rules = [
                f"out ip daddr {address} tcp dport {port} counter drop",
                f"in ip saddr {address} tcp sport {port} counter drop",
            ]
            _nftables.install(cluster, _table(node), dict.fromkeys(others, rules))

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        proofs = []
        for node, others in followers(cluster, nodes).items():
            proofs += require_cut(cluster, node, others)
        if not proofs:
            raise FaultError("no other broker runs: there was no connection to cut")
        return Evidence(text="; ".join(proofs))

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None:
        port = cluster.network.port("INTERNAL")
        for node, others in followers(cluster, nodes).items():
            stalled = [f"dst {cluster.network.address(node)} dport = {port}"]
            _nftables.remove(cluster, _table(node), dict.fromkeys(others, stalled))

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: None) -> bool:
        """Whether every running target is in sync and its INTERNAL answers every other broker.

        A target that another fault keeps down is covered by that fault's own recovery.
        """
        running = [node for node in nodes if cluster.processes.exit_status(node) is None]
        return all(cluster.metadata.in_sync(node) for node in running) and all(
            reaches(cluster, node, others) for node, others in followers(cluster, running).items()
        )


def _table(node: int) -> str:
    return f"inet ackproof_isolate_replication_{node}"
