"""Every open connection of a node is reset once: a firewall forgot its state, a NAT failed over.

Nothing keeps new ones from being opened: clients and brokers find their requests unanswered, and
do not know which of them were carried out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import PrivateAttr

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Fault
from ackproof_faults.interfaces.kernel import Need
from ackproof_faults.network import _links

_LIST = "ss -Htn state established | awk '{print $3, $4}'"


class ResetConnections(Fault):
    """Reset all of the targets' TCP connections once; there is nothing to heal."""

    name: ClassVar[str] = "reset_connections"
    disables: ClassVar[bool] = False
    fault: Literal["reset_connections"] = "reset_connections"
    needs: ClassVar[tuple[Need, ...]] = (Need.SOCKET_DESTROY,)
    proof: ClassVar[str] = "none of the connections that the target had is open any more"

    _before: dict[int, set[str]] = PrivateAttr(default_factory=dict)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Note each target's connections and have its kernel abort them: both ends are told."""
        script = f"{_LIST}; ss -K state established >/dev/null"
        for node, result in _links.each(cluster, dict.fromkeys(nodes, script)).items():
            self._before[node] = set(result.output.splitlines())
            if result.exit_status != 0 or not self._before[node]:
                raise FaultError(f"node {node} has no connection to reset: {result.output}")

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that no connection of before is left."""
        proofs = []
        for node, result in _links.each(cluster, dict.fromkeys(nodes, _LIST)).items():
            before = self._before.get(node, set())
            left = before & set(result.output.splitlines())
            if left or not before:
                raise FaultError(f"node {node} still has {len(left)} of {len(before)} connections")
            proofs.append(f"node {node}: {len(before)} connections reset")
        return "; ".join(proofs)

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Do nothing: it was over at once."""
