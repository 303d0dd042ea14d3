"""A node ends without closing its connections (no FIN, no RST), as when its power or cable fails.

Its peers keep their connections until a timer fires or the node starts again. After SIGKILL alone
the kernel closes every connection of the process.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_faults.interfaces.kernel import Need
from ackproof_faults.network._nftables import install, run_at_each
from ackproof_faults.process._processes import Ended, require_sigkilled, running_nodes
from ackproof_model.effects import Effects, Ends

_TABLE = "inet ackproof_half_open"
_SILENCE = ["in iif != lo drop", "out oif != lo drop"]


class HalfOpen(Ended):
    """Cut the targets' network and kill them with SIGKILL; heal starts them on a new one."""

    requires: ClassVar[InterfaceNames] = ("metadata", "controllers", "processes", "network")
    occupies: ClassVar[str] = ""
    needs: ClassVar[tuple[Need, ...]] = (Need.NFTABLES,)
    explained: ClassVar[bool] = True
    traceless: ClassVar[bool] = True
    past_tense: ClassVar[str] = "was killed without closing its connections"
    fault: Literal["half_open"] = "half_open"
    proof: ClassVar[str] = "the target's process is gone, and another node still holds a connection"
    effects: ClassVar[Effects] = (Ends(silent=True),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        install(cluster, _TABLE, dict.fromkeys(nodes, _SILENCE))
        for node in nodes:
            cluster.processes.kill(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        require_sigkilled(cluster, nodes)
        proofs = []
        for node in nodes:
            address = shlex.quote(cluster.network.address(node))
            count = f"ss -Htn state established dst {address} | wc -l"
            results = run_at_each(cluster, dict.fromkeys(running_nodes(cluster), count))
            open_at = {peer: int(result.output) for peer, result in results.items()}
            holders = [f"node {peer} {count}" for peer, count in open_at.items() if count]
            if not holders:
                raise FaultError(f"no node holds a connection to node {node}: all were closed")
            proofs.append(f"open connections to the dead node {node}: {', '.join(holders)}")
        return Evidence.joined(proofs)
