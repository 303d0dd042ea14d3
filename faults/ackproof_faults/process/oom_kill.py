"""The kernel's out-of-memory killer ends the broker, by SIGKILL.

Only the memory of the broker's own container is exhausted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_faults.process._processes import Ended, require_running, require_sigkilled
from ackproof_model.effects import Effects, Ends


class OomKill(Ended):
    """Make the out-of-memory killer end brokers; heal starts them again."""

    requires: ClassVar[InterfaceNames] = ("metadata", "processes", "memory")
    explained: ClassVar[bool] = True
    traceless: ClassVar[bool] = True
    past_tense: ClassVar[str] = "was killed by the out-of-memory killer"
    fault: Literal["oom_kill"] = "oom_kill"
    proof: ClassVar[str] = "the engine reports that the out-of-memory killer ended the process"
    effects: ClassVar[Effects] = (Ends(),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        require_running(cluster, nodes)
        for node in nodes:
            cluster.memory.exhaust(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        require_sigkilled(cluster, nodes)
        for node in nodes:
            if not cluster.memory.exhausted(node):
                raise FaultError(f"the out-of-memory killer did not end broker {node}")
        return Evidence.joined(f"the out-of-memory killer ended broker {node}" for node in nodes)
