"""Everything is gone at once: brokers and controllers, by SIGKILL; the page cache survives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.targets import Target, TargetSpec
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Fault
from ackproof_faults.network._links import everyone
from ackproof_faults.process.kill import SIGKILLED


class KillCluster(Fault):
    """SIGKILL every node, controllers first; heal starts them all again."""

    name: ClassVar[str] = "kill_cluster"
    occupies: ClassVar[str] = "process"
    fault: Literal["kill_cluster"] = "kill_cluster"
    proof: ClassVar[str] = "the process of every node ended by SIGKILL"
    target: Target = Field(
        default=TargetSpec(role="all"), description="ignored: every node is killed"
    )

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Kill all at the same time; who is down already stays so."""
        _all_at_once(cluster, cluster.kill)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that every process has ended, by SIGKILL."""
        for node in everyone(cluster):
            status = cluster.exit_status(node)
            if status != SIGKILLED:
                raise FaultError(f"node {node} has exit status {status}, not {SIGKILLED}")
        return f"nodes {', '.join(map(str, everyone(cluster)))} ended by SIGKILL"

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Start all at the same time."""
        _all_at_once(cluster, cluster.start)

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int]) -> bool:
        """Whether every broker is unfenced and in every ISR."""
        return all(cluster.in_sync(broker) for broker in cluster.broker_ids())


def _all_at_once(cluster: Cluster, act: Callable[[int], None]) -> None:
    nodes = everyone(cluster)
    with ThreadPoolExecutor(max_workers=len(nodes)) as pool:
        for done in [pool.submit(act, node) for node in nodes]:
            done.result()
