"""Packet filter rules (nftables) in the network namespaces of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from ackproof_faults.evidence import FaultError
from ackproof_faults.interfaces.cluster import Cluster, CommandResult


def run_at_each(cluster: Cluster, scripts: Mapping[int, str]) -> Mapping[int, CommandResult]:
    """Run each node's script in its network namespace, in parallel."""
    if not scripts:
        return {}
    with ThreadPoolExecutor(max_workers=len(scripts)) as pool:
        jobs = {
            node: pool.submit(cluster.network.run, node, script) for node, script in scripts.items()
        }
        return {node: job.result() for node, job in jobs.items()}


def ruleset(table: str, rules: Sequence[str]) -> str:
    """Return the nftables text that replaces a table.

    A rule begins with its hook: ``in tcp dport 9092 counter drop`` or ``out …``.
    """
    chains = []
    for hook in ("in", "out"):
        own = [rule.removeprefix(f"{hook} ") for rule in rules if rule.startswith(f"{hook} ")]
        head = f"chain {hook} {{ type filter hook {hook}put priority 0;"
        chains.append("\n".join([head, *own, "}"]))
    body = "\n".join(chains)
    return f"table {table} {{ }}\ndelete table {table}\ntable {table} {{\n{body}\n}}"


def install(cluster: Cluster, table: str, rules: Mapping[int, Sequence[str]]) -> None:
    """Install a table at each node; raise FaultError if a node refuses it."""
    scripts = {
        node: f"nft -f - <<'RULES'\n{ruleset(table, own)}\nRULES" for node, own in rules.items()
    }
    for node, result in run_at_each(cluster, scripts).items():
        if result.exit_status != 0:
            raise FaultError(f"nft at node {node} refused the rules: {result.output.strip()}")


def remove(cluster: Cluster, table: str, stalled: Mapping[int, Sequence[str]]) -> None:
    """Delete the table at each of these nodes, if it exists, and end stalled connections.

    `stalled`: filters of `ss`. A connection that lost packets for seconds waits in TCP's
    retransmission backoff. If the kernel supports it (INET_DIAG_DESTROY), `ss -K` ends the
    connection, and the node reconnects at once.
    """
    scripts = {}
    for node, filters in stalled.items():
        ends = "".join(f"ss -K {one} >/dev/null 2>&1 || :; " for one in filters)
        scripts[node] = (
            f"if nft list table {table} >/dev/null 2>&1; then nft delete table {table} && "
            f"{{ {ends}:; }}; fi"
        )
    for node, result in run_at_each(cluster, scripts).items():
        if result.exit_status != 0:
            raise FaultError(f"nft at node {node} kept the rules: {result.output.strip()}")
