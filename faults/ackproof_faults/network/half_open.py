"""A node dies and nobody is told: no FIN, no RST, as when its power or its cable is gone.

Others keep their connections to it until a timer or the node's next life tells them better. After
a plain SIGKILL the kernel closes every connection for the dead process.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster
from ackproof_faults.interfaces.kernel import Need
from ackproof_faults.network import _links
from ackproof_faults.process._ended import Ended

_TABLE = "inet ackproof_half_open"
_SILENT = ["in iif != lo drop", "out oif != lo drop"]


class HalfOpen(Ended):
    """Cut the targets' network and SIGKILL them; heal starts them again on a new one."""

    name: ClassVar[str] = "half_open"
    fault: Literal["half_open"] = "half_open"
    needs: ClassVar[tuple[Need, ...]] = (Need.NFTABLES,)
    proof: ClassVar[str] = "the target's process is gone, and another node still holds a connection"

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Silence each target, then kill it."""
        _links.install(cluster, _TABLE, dict.fromkeys(nodes, _SILENT))
        for node in nodes:
            cluster.kill(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that each target is dead, and that some node has open connections to it."""
        proofs = []
        for node in nodes:
            if cluster.exit_status(node) is None:
                raise FaultError(f"node {node} still runs")
            listing = f"ss -Htn state established dst {shlex.quote(cluster.address(node))} | wc -l"
            found = {
                peer: int(result.output)
                for peer, result in _links.each(
                    cluster, dict.fromkeys(_links.running(cluster), listing)
                ).items()
            }
            held = {peer: count for peer, count in found.items() if count}
            if not held:
                raise FaultError(f"no node holds a connection to node {node}: all were told")
            said = ", ".join(f"node {peer} {count}" for peer, count in held.items())
            proofs.append(f"open connections to the dead node {node}: {said}")
        return "; ".join(proofs)
