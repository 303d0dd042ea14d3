"""Every open connection of a node is reset once, as when a firewall or NAT loses its state.

New connections are possible at once. Clients and brokers do not know which of their unanswered
requests were carried out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Fault
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_faults.interfaces.kernel import Need
from ackproof_faults.network._nftables import run_at_each
from ackproof_model.effects import Effects, Resets

_LIST = "ss -Htn state established | awk '{print $3, $4}'"


class ResetConnections(Fault):
    """Reset all of the targets' TCP connections once; there is nothing to heal."""

    requires: ClassVar[InterfaceNames] = ("metadata", "network")
    disables: ClassVar[bool] = False
    explained: ClassVar[bool] = True
    traceless: ClassVar[bool] = True
    fault: Literal["reset_connections"] = "reset_connections"
    needs: ClassVar[tuple[Need, ...]] = (Need.SOCKET_DESTROY,)
    proof: ClassVar[str] = "none of the connections that the target had is open any more"
    effects: ClassVar[Effects] = (Resets(),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> Mapping[int, frozenset[str]]:
        """Abort the connections of each target, with an RST to the peer, and return them."""
        script = f"{_LIST}; ss -K state established >/dev/null"
        before = {}
        for node, result in run_at_each(cluster, dict.fromkeys(nodes, script)).items():
            before[node] = frozenset(result.output.splitlines())
            if result.exit_status != 0 or not before[node]:
                raise FaultError(f"node {node} has no connection to reset: {result.output}")
        return before

    def verify(
        self, cluster: Cluster, nodes: Sequence[int], done: Mapping[int, frozenset[str]]
    ) -> Evidence:
        proofs = []
        for node, result in run_at_each(cluster, dict.fromkeys(done, _LIST)).items():
            left = done[node] & set(result.output.splitlines())
            if left:
                raise FaultError(
                    f"node {node} still has {len(left)} of {len(done[node])} connections"
                )
            proofs.append(f"node {node}: {len(done[node])} connections reset")
        return Evidence.joined(proofs)

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: object) -> None:
        """Do nothing: the fault was over at once."""
