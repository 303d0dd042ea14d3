"""SIGKILL of all brokers and controllers at once; the page cache survives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Literal

from ackproof_faults.conditions.targets import Target
from ackproof_faults.evidence import Evidence
from ackproof_faults.fault import Fault, untargeted
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_faults.process._processes import all_nodes, require_sigkilled
from ackproof_model.effects import Effects, Ends


class KillCluster(Fault):
    """Kill every broker and controller with SIGKILL at once; heal starts them all again."""

    requires: ClassVar[InterfaceNames] = ("metadata", "controllers", "processes")
    occupies: ClassVar[str] = "process"
    explained: ClassVar[bool] = True
    traceless: ClassVar[bool] = True
    past_tense: ClassVar[str] = "was killed with all others"
    fault: Literal["kill_cluster"] = "kill_cluster"
    proof: ClassVar[str] = "the process of every node ended by SIGKILL"
    target: Target = untargeted("ignored: every node is killed")
    effects: ClassVar[Effects] = (Ends(nodes="every"),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        _at_once(cluster, cluster.processes.kill)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        every = all_nodes(cluster)
        require_sigkilled(cluster, every)
        return Evidence(text=f"nodes {', '.join(map(str, every))} ended by SIGKILL")

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None:
        _at_once(cluster, cluster.processes.start)

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: None) -> bool:
        return all(cluster.metadata.in_sync(node) for node in cluster.metadata.broker_ids())


def _at_once(cluster: Cluster, act: Callable[[int], None]) -> None:
    nodes = all_nodes(cluster)
    with ThreadPoolExecutor(max_workers=len(nodes)) as pool:
        for job in [pool.submit(act, node) for node in nodes]:
            job.result()
