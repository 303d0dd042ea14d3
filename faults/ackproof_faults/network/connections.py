"""Connections that one end does not know to be gone, and connections that are reset.

A node whose power or cable fails ends without closing its connections (no FIN, no RST). Its peers
keep them until a timer fires or the node starts again. After SIGKILL alone the kernel closes every
connection of the process.

All connections of a node are reset once when a firewall or NAT loses its state. New ones are
possible at once. Clients and brokers do not know which unanswered requests were carried out.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Fault
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.interfaces.kernel import Need
from ackproof_faults.network._links import install, run_at_each
from ackproof_faults.process._processes import Ended, require_sigkilled, running_nodes
from ackproof_model.effects import Effects, Ends, Resets

_TABLE = "inet ackproof_half_open"
_SILENCE = ["in iif != lo drop", "out oif != lo drop"]


class HalfOpen(Ended):
    """Cut the targets' network and kill them with SIGKILL; heal starts them on a new one."""

    requires = ("metadata", "controllers", "processes", "network")
    occupies = ""
    needs = (Need.NFTABLES,)
    explained = True
    traceless = True
    past_tense = "was killed without closing its connections"
    fault: Literal["half_open"] = "half_open"
    proof = "the target's process is gone, and another node still holds a connection"
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


_LIST = "ss -Htn state established | awk '{print $3, $4}'"


class ResetConnections(Fault):
    """Reset all of the targets' TCP connections once; there is nothing to heal."""

    requires = ("metadata", "network")
    disables = False
    explained = True
    traceless = True
    fault: Literal["reset_connections"] = "reset_connections"
    needs = (Need.SOCKET_DESTROY,)
    proof = "none of the connections that the target had is open any more"
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
