"""Followers cannot reach a broker's INTERNAL listener; clients and the controller can.

Every other broker drops its packets to and from the target's INTERNAL port, so that neither a fetch
that waits at the leader nor a new fetch is answered. The rules are not in the target's network
namespace: a kill of the target would remove them, and the restarted leader could still replicate
records that only it has. The target itself still fetches from the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Fault, Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.interfaces.kernel import Need
from ackproof_faults.network._links import (
    connect,
    install,
    not_behind_proxy,
    remove,
    run_at_each,
)
from ackproof_model.effects import Cuts, Effects

_TIMED_OUT = 124  # exit status of timeout(1)


def followers(cluster: Cluster, nodes: Sequence[int]) -> Mapping[int, list[int]]:
    """Return, for each node, the other running brokers."""
    running = [
        broker
        for broker in cluster.metadata.broker_ids()
        if cluster.processes.exit_status(broker) is None
    ]
    return {node: [other for other in running if other != node] for node in nodes}


def require_cut(cluster: Cluster, node: int, others: Sequence[int]) -> list[str]:
    """Require that INTERNAL times out from every other broker while EXTERNAL answers.

    EXTERNAL is the control: the broker is alive, and only one of its listeners is cut. Returns a
    proof for each other broker.
    """
    script = (
        f"{_connect(cluster, node, 'INTERNAL', 0.5)}; echo internal=$?;"
        f"{_connect(cluster, node, 'EXTERNAL', 2)}; echo external=$?"
    )
    for other, result in run_at_each(cluster, dict.fromkeys(others, script)).items():
        if f"internal={_TIMED_OUT}" not in result.output:
            raise FaultError(
                f"broker {other} still reaches INTERNAL of broker {node}: {result.output}"
            )
        if "external=0" not in result.output:
            raise FaultError(
                f"broker {other} does not reach EXTERNAL of broker {node} either: more than "
                f"replication is cut: {result.output}"
            )
    return [f"{other}->{node}: INTERNAL times out, EXTERNAL answers" for other in others]


def reaches(cluster: Cluster, node: int, others: Sequence[int]) -> bool:
    """Whether INTERNAL of the node accepts a connection from every other broker."""
    script = _connect(cluster, node, "INTERNAL", 2)
    results = run_at_each(cluster, dict.fromkeys(others, script))
    return all(result.exit_status == 0 for result in results.values())


def _connect(cluster: Cluster, node: int, listener: str, within_s: float) -> str:
    return connect(cluster, node, cluster.network.port(listener), within_s)


class IsolateReplication(Fault):
    """Cut other brokers off from the targets' INTERNAL listener (replication), nothing else."""

    requires = ("metadata", "processes", "network")
    needs = (Need.NFTABLES,)
    explained = True
    traceless = True
    fault: Literal["isolate_replication"] = "isolate_replication"
    proof = "every other broker's connections to INTERNAL time out, and those to EXTERNAL do not"
    effects: ClassVar[Effects] = (Cuts(channels=("replication",), served=True),)

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
            install(cluster, _table(node), dict.fromkeys(others, rules))

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        proofs = []
        for node, others in followers(cluster, nodes).items():
            proofs += require_cut(cluster, node, others)
        if not proofs:
            raise FaultError("no other broker runs: there was no connection to cut")
        return Evidence.joined(proofs)

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None:
        port = cluster.network.port("INTERNAL")
        for node, others in followers(cluster, nodes).items():
            stalled = [f"dst {cluster.network.address(node)} dport = {port}"]
            remove(cluster, _table(node), dict.fromkeys(others, stalled))

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: None) -> bool:
        """Whether every running target is in sync and its INTERNAL answers every other broker.

        A target that another fault has stopped is checked by that fault.
        """
        running = [node for node in nodes if cluster.processes.exit_status(node) is None]
        return all(cluster.metadata.in_sync(node) for node in running) and all(
            reaches(cluster, node, others) for node, others in followers(cluster, running).items()
        )


def _table(node: int) -> str:
    return f"inet ackproof_isolate_replication_{node}"
