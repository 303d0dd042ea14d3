"""SIGKILL: a crash of the process, not of the machine.

The page cache survives, so data that the broker appended but never fsynced is still there when it
starts again. A record is lost if another broker becomes leader before any other replica has fetched
the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.evidence import Evidence
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.process._processes import SIGKILLED, Ended, require_running, require_sigkilled
from ackproof_model.effects import Effects, Ends


class Kill(Ended):
    """Kill brokers with SIGKILL; heal starts them again with their identity and data."""

    explained: ClassVar[bool] = True
    traceless: ClassVar[bool] = True
    past_tense: ClassVar[str] = "was killed"
    fault: Literal["kill"] = "kill"
    proof: ClassVar[str] = "the process ended by SIGKILL"
    effects: ClassVar[Effects] = (Ends(),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        require_running(cluster, nodes)
        for node in nodes:
            cluster.processes.kill(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        require_sigkilled(cluster, nodes)
        return Evidence.joined(
            f"broker {node} ended by SIGKILL (exit {SIGKILLED})" for node in nodes
        )
