"""A broker's container on an attached cluster: killed or stopped, and started again.

It acts on containers that the scenario lists by name (`cluster.attach.containers`) and on no other,
and only where the file says that they are its author's (`cluster.attach.i_own`). On a cluster that
ackproof boots itself, the faults `kill` and `restart` do the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster
from ackproof_faults.process._ended import Ended
from ackproof_faults.process.kill import SIGKILLED


class Docker(Ended):
    """Kill or stop the targets' containers; heal starts them again."""

    name: ClassVar[str] = "docker"
    occupies: ClassVar[str] = "process"
    fault: Literal["docker"] = "docker"
    proof: ClassVar[str] = "the container's process ended by the signal that was sent"
    action: Literal["kill", "stop"] = Field(
        default="kill", description="kill: SIGKILL; stop: SIGTERM, a controlled shutdown"
    )

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Kill or stop each container."""
        for node in nodes:
            if cluster.exit_status(node) is not None:
                raise FaultError(f"broker {node} was already down: there was nothing to end")
            if self.action == "kill":
                cluster.kill(node)
            else:
                cluster.terminate(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that each container's process ended, and by the signal that was sent."""
        for node in nodes:
            status = cluster.exit_status(node)
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
        return "; ".join(f"broker {node}: {self.action}, it ended" for node in nodes)
