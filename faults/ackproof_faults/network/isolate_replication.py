"""Followers cannot reach a broker's INTERNAL listener; clients and the controller can.

Every other broker drops its packets to and from the isolated broker's INTERNAL port, in its own
network namespace and in both directions, so that neither a fetch already waiting at the leader
nor a new one is answered. The rules outlive a crash of the isolated broker: were they in *its*
namespace, killing it would end the fault and a leader that restarts could still hand over what
it alone holds. The isolated broker itself still fetches from the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Fault
from ackproof_faults.interfaces.kernel import Need

_TIMED_OUT = 124  # what timeout(1) exits with when it had to end the command


def _table(node: int) -> str:
    return f"ackproof_isolate_replication_{node}"


class IsolateReplication(Fault):
    """Cut other brokers off from the targets' INTERNAL listener (replication), nothing else."""

    name: ClassVar[str] = "isolate_replication"
    fault: Literal["isolate_replication"] = "isolate_replication"
    needs: ClassVar[tuple[Need, ...]] = (Need.NFTABLES,)
    proof: ClassVar[str] = (
        "every other broker's connections to INTERNAL time out, and those to EXTERNAL do not"
    )

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Install the drop rules at every other running broker."""
        port = cluster.port("INTERNAL")
        for node, other in _pairs(cluster, nodes):
            address = cluster.address(node)
            rules = (
                f"table inet {_table(node)} {{\n"
                f"  chain out {{ type filter hook output priority 0;\n"
                f"    ip daddr {address} tcp dport {port} counter drop; }}\n"
                f"  chain in {{ type filter hook input priority 0;\n"
                f"    ip saddr {address} tcp sport {port} counter drop; }}\n"
                f"}}"
            )
            result = cluster.run_beside(other, f"nft -f - <<'RULES'\n{rules}\nRULES")
            if result.exit_status != 0:
                raise FaultError(f"nft at broker {other} refused the rules: {result.output}")

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that INTERNAL times out from every other broker while EXTERNAL answers.

        The second half is the control: it shows that the broker is alive and that only the one
        listener is cut.
        """
        proofs = []
        for node, other in _pairs(cluster, nodes):
            result = cluster.run_beside(
                other,
                f"{_connect(cluster, node, 'INTERNAL', 0.5)}; echo internal=$?;"
                f"{_connect(cluster, node, 'EXTERNAL', 2)}; echo external=$?",
            )
            if f"internal={_TIMED_OUT}" not in result.output:
                raise FaultError(
                    f"broker {other} still reaches INTERNAL of broker {node}: {result.output}"
                )
            if "external=0" not in result.output:
                raise FaultError(
                    f"broker {other} does not reach EXTERNAL of broker {node} either, so more "
                    f"than replication is cut: {result.output}"
                )
            proofs.append(f"{other}->{node}: INTERNAL times out, EXTERNAL answers")
        if not proofs:
            raise FaultError("no other broker runs, so there was no connection to cut")
        return "; ".join(proofs)

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Remove the rules and the connections they stalled.

        A broker that restarted meanwhile has no rules left. A connection that lost packets for
        seconds would sleep on in TCP's retransmission backoff; where the kernel can
        (INET_DIAG_DESTROY), `ss -K` ends it, and the fetcher opens a new one at once.
        """
        port = cluster.port("INTERNAL")
        for node, other in _pairs(cluster, nodes):
            table = f"inet {_table(node)}"
            result = cluster.run_beside(
                other,
                f"if nft list table {table} >/dev/null 2>&1; then nft delete table {table}; fi"
                f" && {{ ss -K dst {cluster.address(node)} dport = {port} >/dev/null 2>&1 || :; }}",
            )
            if result.exit_status != 0:
                raise FaultError(f"nft at broker {other} kept the rules: {result.output}")

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int]) -> bool:
        """Whether every running target is in sync and its INTERNAL answers every other broker.

        A target that is down for another fault's sake cannot be asked; that fault's own
        recovery covers it.
        """
        running = [node for node in nodes if cluster.exit_status(node) is None]
        return all(cluster.in_sync(node) for node in running) and all(
            cluster.run_beside(other, _connect(cluster, node, "INTERNAL", 2)).exit_status == 0
            for node, other in _pairs(cluster, running)
        )


def _connect(cluster: Cluster, node: int, listener: str, within_s: float) -> str:
    """Return a bash command that connects to a listener, or exits with `_TIMED_OUT`."""
    address, port = cluster.address(node), cluster.port(listener)
    return f"timeout {within_s:g} bash -c 'exec 3<>/dev/tcp/{address}/{port}'"


def _pairs(cluster: Cluster, nodes: Sequence[int]) -> list[tuple[int, int]]:
    """Return (isolated broker, other running broker) for every connection to cut."""
    return [
        (node, other)
        for node in nodes
        for other in cluster.broker_ids()
        if other != node and cluster.exit_status(other) is None
    ]
