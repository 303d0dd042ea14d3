"""The broker's processes are frozen (cgroup freezer): connections stay open, nothing answers.

Only clients notice a freeze shorter than `broker.session.timeout.ms` (9 s). After a longer freeze
the controller fences the broker; when thawed, the broker still believes that it is the leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Fault
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_faults.process._processes import require_running
from ackproof_model.effects import Effects, Stalls


class Pause(Fault):
    """Freeze brokers; heal thaws them."""

    requires: ClassVar[InterfaceNames] = ("metadata", "processes", "freezer")
    occupies: ClassVar[str] = "process"
    explained: ClassVar[bool] = True
    traceless: ClassVar[bool] = True
    past_tense: ClassVar[str] = "was paused"
    fault: Literal["pause"] = "pause"
    proof: ClassVar[str] = "the engine reports the broker frozen, and it does not answer a client"
    effects: ClassVar[Effects] = (Stalls(),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        require_running(cluster, nodes)
        for node in nodes:
            cluster.freezer.pause(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        for node in nodes:
            if not cluster.freezer.paused(node):
                raise FaultError(f"broker {node} is not frozen")
            if cluster.metadata.answers(node):
                raise FaultError(f"broker {node} still answers")
        return Evidence.joined(f"broker {node} is frozen and does not answer" for node in nodes)

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None:
        for node in nodes:
            cluster.freezer.resume(node)
