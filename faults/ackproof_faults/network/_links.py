"""What faults of the network share: packets between nodes, filtered in their network namespaces.

A `Cut` is directed: packets from its source to its sink go lost. It is put into force at both of
its ends, so that it outlives the restart of either (a broker that is started anew has a new
network namespace). Clients reach a broker through its published ports, from outside the cluster's
network: for them only the listener's port tells whose packets they are.
"""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, CommandResult, Fault
from ackproof_faults.interfaces.kernel import Need

#: Stands for whoever uses a listener for clients.
CLIENTS = -1

_TIMED_OUT = 124  # what timeout(1) exits with when it had to end the command
VERDICTS = {"drop": "drop", "reject": "reject with tcp reset"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Packets from `source` to `sink`, on one listener's port if that is not None."""

    source: int
    sink: int
    port: int | None = None


def both_ways(one: int, other: int, port: int | None = None) -> list[Cut]:
    """Return the two cuts that separate two nodes."""
    return [
        Cut(source=one, sink=other, port=port),
        Cut(source=other, sink=one, port=port),
    ]


class Links(Fault):
    """A fault that makes some nodes unreachable for some others."""

    needs: ClassVar[tuple[Need, ...]] = (Need.NFTABLES, Need.REJECT)
    proof: ClassVar[str] = (
        "connections over every cut link fail, tried from the other end; others are accepted"
    )
    how: Literal["drop", "reject"] = Field(
        default="drop",
        description="drop: packets vanish, and connections hang; reject: they are reset at once",
    )

    @abstractmethod
    def cuts(self, cluster: Cluster, nodes: Sequence[int]) -> Sequence[Cut]:
        """Return every link that is cut."""

    @property
    def table(self) -> str:
        """The nftables table of this fault and no other."""
        return f"inet ackproof_{self.name}_{zlib.crc32(self.model_dump_json().encode()):08x}"

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Install the rules at both ends of each link."""
        cuts = self.cuts(cluster, nodes)
        if not cuts:
            raise FaultError("there is no link between these nodes to cut")
        install(cluster, self.table, rules(cluster, cuts, VERDICTS[self.how]))

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that no connection over a cut link comes about, and that others do.

        The others are the control: without it, nodes that answer nobody would look like a cut.
        """
        return verify_cut(cluster, self.cuts(cluster, nodes))

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Remove the rules, and the connections that they stalled."""
        peers: dict[int, set[int]] = {node: set() for node in running(cluster)}
        for cut in self.cuts(cluster, nodes):
            for node, other in ((cut.source, cut.sink), (cut.sink, cut.source)):
                if node in peers and other != CLIENTS:
                    peers[node].add(other)
        remove(cluster, self.table, {node: sorted(others) for node, others in peers.items()})

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int]) -> bool:
        """Whether every running broker is unfenced and in every ISR."""
        return all(
            cluster.in_sync(broker)
            for broker in cluster.broker_ids()
            if cluster.exit_status(broker) is None
        )


def everyone(cluster: Cluster) -> list[int]:
    """Return every node: brokers, and those that decide over metadata."""
    return sorted({*cluster.broker_ids(), *cluster.controller_ids()})


def running(cluster: Cluster) -> list[int]:
    """Return the nodes that run; a node that is down has no network."""
    return [node for node in everyone(cluster) if cluster.exit_status(node) is None]


def client_ports(cluster: Cluster, listener: str | None) -> list[int]:
    """Return the port of a listener, of all that clients use for None."""
    names = [listener] if listener else cluster.client_listeners()
    return [cluster.port(name) for name in names]


def rules(cluster: Cluster, cuts: Sequence[Cut], verdict: str) -> Mapping[int, list[str]]:
    """Return for each running node its rules, as ``in …`` or ``out …`` and what then happens."""
    found: dict[int, list[str]] = {node: [] for node in running(cluster)}
    for cut in cuts:
        for node, hook, peer, word in (
            (cut.sink, "in", cut.source, "saddr"),
            (cut.source, "out", cut.sink, "daddr"),
        ):
            if node in found:
                whose = [] if peer == CLIENTS else [f"ip {word} {cluster.address(peer)}"]
                for match in _matches(cut, peer, hook):
                    found[node].append(" ".join([hook, *whose, match, "counter", verdict]))
    return {node: lines for node, lines in found.items() if lines}


def _matches(cut: Cut, peer: int, hook: str) -> list[str]:
    """Return what tells the link's packets from others between the same nodes."""
    if cut.port is None:
        return ["meta l4proto tcp"]
    if peer == CLIENTS:
        return [f"tcp {'dport' if hook == 'in' else 'sport'} {cut.port}"]
    return [f"tcp dport {cut.port}", f"tcp sport {cut.port}"]


def install(cluster: Cluster, table: str, wanted: Mapping[int, Sequence[str]]) -> None:
    """Put rules into force at all nodes at once; raise FaultError if one refuses."""
    scripts = {}
    for node, lines in wanted.items():
        scripts[node] = f"nft -f - <<'RULES'\n{ruleset(table, lines)}\nRULES"
    for node, result in each(cluster, scripts).items():
        if result.exit_status != 0:
            raise FaultError(f"nft at node {node} refused the rules: {result.output.strip()}")


def ruleset(table: str, lines: Sequence[str]) -> str:
    """Return the nftables text that makes a table anew with these rules."""
    chains = []
    for hook in ("in", "out"):
        own = [line.removeprefix(f"{hook} ") for line in lines if line.startswith(f"{hook} ")]
        head = f"chain {hook} {{ type filter hook {hook}put priority 0;"
        chains.append("\n".join([head, *own, "}"]))
    body = "\n".join(chains)
    return f"table {table} {{ }}\ndelete table {table}\ntable {table} {{\n{body}\n}}"


def remove(cluster: Cluster, table: str, peers: Mapping[int, Sequence[int]]) -> None:
    """Delete the table at these nodes, and end their connections to these peers.

    A connection that lost packets for seconds would sleep on in TCP's retransmission backoff; where
    the kernel can (INET_DIAG_DESTROY), `ss -K` ends it, and a new one is opened at once.
    """
    scripts = {}
    for node, others in peers.items():
        ends = "".join(
            f"ss -K dst {cluster.address(other)} >/dev/null 2>&1 || :; " for other in others
        )
        scripts[node] = (
            f"if nft list table {table} >/dev/null 2>&1; then nft delete table {table} && "
            f"{{ {ends}:; }}; fi"
        )
    for node, result in each(cluster, scripts).items():
        if result.exit_status != 0:
            raise FaultError(f"nft at node {node} kept the rules: {result.output.strip()}")


def each(cluster: Cluster, scripts: Mapping[int, str]) -> Mapping[int, CommandResult]:
    """Run each node's script beside it, all at the same time."""
    if not scripts:
        return {}
    with ThreadPoolExecutor(max_workers=len(scripts)) as pool:
        jobs = {node: pool.submit(cluster.run_beside, node, text) for node, text in scripts.items()}
        return {node: job.result() for node, job in jobs.items()}


def verify_cut(cluster: Cluster, cuts: Sequence[Cut]) -> str:
    """Require that exactly the cut links fail; return that in words, or raise FaultError."""
    nodes = running(cluster)
    tried = {
        node: [(peer, port) for peer in nodes if peer != node for port in _ports(cluster, peer)]
        for node in nodes
    }
    scripts = {
        node: "\n".join(_try(cluster, peer, port) for peer, port in links) + "\nwait"
        for node, links in tried.items()
        if links
    }
    proofs, controls = [], 0
    for node, result in each(cluster, scripts).items():
        said = dict(line.split() for line in result.output.splitlines())
        for peer, port in tried[node]:
            reached = said.get(f"{peer}:{port}") == "0"
            if not _is_cut(cuts, node, peer, port):
                controls += reached
            elif reached:
                raise FaultError(f"node {node} still reaches port {port} of node {peer}")
            else:
                proofs.append(f"{node}->{peer}:{port}")
    if not proofs:
        raise FaultError("no other node runs that could have been cut off")
    if not controls and any(
        not _is_cut(cuts, node, *link) for node, links in tried.items() for link in links
    ):
        raise FaultError("no node reaches any other: more is cut than was asked for")
    return f"cut: {', '.join(proofs)}; {controls} other links work"


def _ports(cluster: Cluster, node: int) -> list[int]:
    ports = [cluster.port("CONTROLLER")] if node in cluster.controller_ids() else []
    if node in cluster.broker_ids():
        ports += [cluster.port("INTERNAL"), *client_ports(cluster, None)]
    return ports


def _try(cluster: Cluster, peer: int, port: int) -> str:
    """Return a bash command that prints whether a connection is accepted within half a second."""
    connect = f"timeout 0.5 bash -c 'exec 3<>/dev/tcp/{cluster.address(peer)}/{port}'"
    return f"{{ {connect} 2>/dev/null; echo {peer}:{port} $?; }} &"


def _is_cut(cuts: Sequence[Cut], node: int, peer: int, port: int) -> bool:
    """Whether a connection from node to the peer's port needs a cut link, there or back."""
    ends = ({node, peer}, {CLIENTS, peer})
    return any({cut.source, cut.sink} in ends and cut.port in (None, port) for cut in cuts)
