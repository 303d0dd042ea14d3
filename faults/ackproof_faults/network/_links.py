"""Directed cuts between nodes: their packet filter rules, and their proof by connections.

A `Cut` drops packets from its source to its sink. Its rules are installed at both ends: a broker
that starts again has a new network namespace without rules. Clients reach a broker through its
published ports, from outside the cluster's network; only the listener's port identifies their
packets.
"""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Fault, Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster, CommandResult
from ackproof_faults.interfaces.kernel import Need
from ackproof_faults.process._processes import running_nodes
from ackproof_model.effects import CHANNELS, Channel

#: Stands for all clients of a listener.
CLIENTS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Packets from `source` to `sink` are lost, on one port or (None) on all."""

    source: int
    sink: int
    port: int | None = None


def both_ways(one: int, other: int, port: int | None = None) -> list[Cut]:
    """Return the two cuts that separate two nodes."""
    return [
        Cut(source=one, sink=other, port=port),
        Cut(source=other, sink=one, port=port),
    ]


def client_ports(cluster: Cluster, listener: str | None) -> list[int]:
    """Return the port of a listener; for None, the ports of all client listeners."""
    names = [listener] if listener else cluster.network.client_listeners()
    return [cluster.network.port(name) for name in names]


def channels(peers: str | Sequence[int], listener: str | None) -> tuple[Channel, ...]:
    """Return the channels to these peers, over one listener or (None) over all."""
    to_peers: dict[object, tuple[Channel, ...]] = {
        "brokers": ("replication",),
        "controllers": ("controllers",),
        "clients": ("clients",),
    }
    over: dict[str | None, tuple[Channel, ...]] = {
        None: CHANNELS,
        "INTERNAL": ("replication",),
        "CONTROLLER": ("controllers",),
    }
    reached = to_peers.get(peers, ("replication", "controllers"))
    return tuple(one for one in reached if one in over.get(listener, ("clients",)))


def rules(cluster: Cluster, cuts: Sequence[Cut], verdict: str) -> Mapping[int, list[str]]:
    """Return the rules of each running node (`ruleset`)."""
    lines_of: dict[int, list[str]] = {node: [] for node in running_nodes(cluster)}
    for cut in cuts:
        for node, hook, peer, side in (
            (cut.sink, "in", cut.source, "saddr"),
            (cut.source, "out", cut.sink, "daddr"),
        ):
            if node in lines_of:
                who = [] if peer == CLIENTS else [f"ip {side} {cluster.network.address(peer)}"]
                for match in _matches(cut, peer, hook):
                    lines_of[node].append(" ".join([hook, *who, match, "counter", verdict]))
    return {node: lines for node, lines in lines_of.items() if lines}


def _matches(cut: Cut, peer: int, hook: str) -> list[str]:
    """Return the expressions that select the link's packets among those between two nodes."""
    if cut.port is None:
        return ["meta l4proto tcp"]
    if peer == CLIENTS:
        return [f"tcp {'dport' if hook == 'in' else 'sport'} {cut.port}"]
    return [f"tcp dport {cut.port}", f"tcp sport {cut.port}"]


def connect(cluster: Cluster, node: int, port: int, within_s: float) -> str:
    """Return a bash command that connects to a node's port; its status is 124 if it times out."""
    address = cluster.network.address(node)
    return f"timeout {within_s:g} bash -c 'exec 3<>/dev/tcp/{address}/{port}'"


def verify_cut(cluster: Cluster, cuts: Sequence[Cut]) -> Evidence:
    """Require that connections over every cut link fail, and that others are accepted.

    The others are the control: nodes that accept no connections at all would look like a cut.
    """
    nodes = running_nodes(cluster)
    links = {
        node: [(peer, port) for peer in nodes if peer != node for port in _ports(cluster, peer)]
        for node in nodes
    }
    scripts = {
        node: "\n".join(_probe(cluster, peer, port) for peer, port in own) + "\nwait"
        for node, own in links.items()
        if own
    }
    proofs, controls = [], 0
    for node, result in run_at_each(cluster, scripts).items():
        statuses = dict(line.split() for line in result.output.splitlines())
        for peer, port in links[node]:
            accepted = statuses.get(f"{peer}:{port}") == "0"
            if not _is_cut(cuts, node, peer, port):
                controls += accepted
            elif accepted:
                raise FaultError(f"node {node} still reaches port {port} of node {peer}")
            else:
                proofs.append(f"{node}->{peer}:{port}")
    if not proofs:
        raise FaultError("no other node runs that could have been cut off")
    if not controls and any(
        not _is_cut(cuts, node, *link) for node, own in links.items() for link in own
    ):
        raise FaultError("no node reaches any other: more is cut than the fault should cut")
    return Evidence(text=f"cut: {', '.join(proofs)}; {controls} other links work")


def _ports(cluster: Cluster, node: int) -> list[int]:
    ports = [cluster.network.port("CONTROLLER")] if node in cluster.controllers.ids() else []
    if node in cluster.metadata.broker_ids():
        ports += [cluster.network.port("INTERNAL"), *client_ports(cluster, None)]
    return ports


def _probe(cluster: Cluster, peer: int, port: int) -> str:
    """Return a bash command that prints the status of one connection attempt."""
    return f"{{ {connect(cluster, peer, port, 0.5)} 2>/dev/null; echo {peer}:{port} $?; }} &"


def _is_cut(cuts: Sequence[Cut], node: int, peer: int, port: int) -> bool:
    """Whether a connection from node to the peer's port uses a cut link in either direction."""
    ends = ({node, peer}, {CLIENTS, peer})
    return any({cut.source, cut.sink} in ends and cut.port in (None, port) for cut in cuts)


VERDICTS = {"drop": "drop", "reject": "reject with tcp reset"}


def not_behind_proxy(name: str, shape: Shape) -> Iterator[Problem]:
    """Yield the problem that listeners between nodes lead through the Kafka proxy."""
    if inside := sorted({"INTERNAL", "CONTROLLER"} & set(shape.proxied)):
        yield (
            "fault",
            f"{name!r} cuts links between nodes, but {', '.join(inside)} leads through the Kafka "
            "proxy: use 'link', or remove it from cluster.proxied",
        )


class Links(Fault):
    """A fault that cuts links; `cuts` says which."""

    requires = ("metadata", "controllers", "processes", "network")
    needs = (Need.NFTABLES, Need.REJECT)
    explained = True
    traceless = True
    proof = "connections over every cut link fail, tried from the other end; others are accepted"
    how: Literal["drop", "reject"] = Field(
        default="drop",
        description="drop: packets vanish, and connections hang; reject: they are reset at once",
    )

    @abstractmethod
    def cuts(self, cluster: Cluster, nodes: Sequence[int]) -> Sequence[Cut]:
        """Return every link that is cut."""

    @property
    def table(self) -> str:
        """The name of this fault's own nftables table."""
        return f"inet ackproof_{self.name}_{zlib.crc32(self.model_dump_json().encode()):08x}"

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from not_behind_proxy(self.name, shape)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        cuts = self.cuts(cluster, nodes)
        if not cuts:
            raise FaultError("there is no link between these nodes to cut")
        install(cluster, self.table, rules(cluster, cuts, VERDICTS[self.how]))

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        return verify_cut(cluster, self.cuts(cluster, nodes))

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None:
        stalled: dict[int, set[str]] = {node: set() for node in running_nodes(cluster)}
        for cut in self.cuts(cluster, nodes):
            for node, peer in ((cut.source, cut.sink), (cut.sink, cut.source)):
                if node in stalled and peer != CLIENTS:
                    stalled[node].add(f"dst {cluster.network.address(peer)}")
        remove(cluster, self.table, {node: sorted(own) for node, own in stalled.items()})

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: None) -> bool:
        """Whether every running broker is unfenced and in every ISR."""
        return all(
            cluster.metadata.in_sync(broker)
            for broker in cluster.metadata.broker_ids()
            if cluster.processes.exit_status(broker) is None
        )


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
