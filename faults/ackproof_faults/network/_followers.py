"""Connections from other brokers to a broker's listeners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ackproof_faults.errors import FaultError
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.network._cuts import connect
from ackproof_faults.network._nftables import run_at_each

_TIMED_OUT = 124  # exit status of timeout(1)


def followers(cluster: Cluster, nodes: Sequence[int]) -> Mapping[int, list[int]]:
    """Return for each of the nodes the other brokers that run."""
    running = [
        broker
        for broker in cluster.metadata.broker_ids()
        if cluster.processes.exit_status(broker) is None
    ]
    return {node: [other for other in running if other != node] for node in nodes}


def require_cut(cluster: Cluster, node: int, others: Sequence[int]) -> list[str]:
    """Require that INTERNAL times out from every other broker while EXTERNAL answers.

    EXTERNAL is the control: the broker is alive, and only one of its listeners is cut. Returns the
    proof for each of the others.
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
