"""A broker's container on an attached cluster is killed or stopped, and started again.

It acts only on containers that the scenario lists (`cluster.attach.containers`), and only if the
scenario says that its author owns them (`cluster.attach.i_own`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.external._attached import AttachedFault
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.process._processes import SIGKILLED, Ended, require_running
from ackproof_model.effects import Effects, Ends


class Docker(AttachedFault, Ended):
    """Kill or stop the targets' containers; heal starts them again."""

    fault: Literal["docker"] = "docker"
    proof: ClassVar[str] = "the signal that was sent ended the container's process"
    action: Literal["kill", "stop"] = Field(
        default="kill", description="kill: SIGKILL; stop: SIGTERM, a controlled shutdown"
    )

    @property
    def effects(self) -> Effects:
        return (Ends(clean=self.action == "stop"),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        require_running(cluster, nodes)
        processes = cluster.processes
        for node in nodes:
            (processes.kill if self.action == "kill" else processes.terminate)(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        for node in nodes:
            status = cluster.processes.exit_status(node)
            if status is None:
                raise FaultError(f"broker {node} still runs after {self.action}")
            if (status == SIGKILLED) != (self.action == "kill"):
                raise FaultError(
                    f"broker {node} ended with exit status {status}: "
                    + (
                        f"not by SIGKILL ({SIGKILLED})"
                        if self.action == "kill"
                        else "SIGKILL came before its controlled shutdown was over"
                    )
                )
        return Evidence.joined(f"broker {node}: {self.action}, it ended" for node in nodes)
