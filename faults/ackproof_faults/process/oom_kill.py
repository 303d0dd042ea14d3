"""The kernel's out-of-memory killer ends the broker: like SIGKILL, and for a reason of its own.

Memory of the broker's container is used up on purpose; no other process is in danger.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster
from ackproof_faults.process._ended import Ended
from ackproof_faults.process.kill import SIGKILLED


class OomKill(Ended):
    """Have the out-of-memory killer end brokers; heal starts them again."""

    name: ClassVar[str] = "oom_kill"
    occupies: ClassVar[str] = "process"
    fault: Literal["oom_kill"] = "oom_kill"
    proof: ClassVar[str] = "the engine reports that the process was killed for want of memory"

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Use up the memory of each broker's container."""
        for node in nodes:
            if cluster.exit_status(node) is not None:
                raise FaultError(f"broker {node} was already down: there was nothing to kill")
            cluster.exhaust_memory(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that each ended by SIGKILL, and that the kernel's killer sent it."""
        for node in nodes:
            status = cluster.exit_status(node)
            if status != SIGKILLED or not cluster.out_of_memory(node):
                raise FaultError(f"broker {node} (exit status {status}) was not killed for memory")
        return "; ".join(f"broker {node} was killed for want of memory" for node in nodes)
