"""SIGTERM and start: a controlled shutdown, as in every rolling restart.

The controller moves leadership away and takes the broker out of each ISR before its process
ends; the broker writes `.kafka_cleanshutdown`, so nothing is recovered or truncated at start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster
from ackproof_faults.process._ended import Ended

#: 128 + SIGTERM: a JVM that ran its shutdown hooks after SIGTERM exits so.
SIGTERMED = 143


class Restart(Ended):
    """Stop brokers with SIGTERM; heal starts them again."""

    name: ClassVar[str] = "restart"
    occupies: ClassVar[str] = "process"
    fault: Literal["restart"] = "restart"
    proof: ClassVar[str] = "the process ended by itself after SIGTERM"

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Stop each broker and wait until its process has ended."""
        for node in nodes:
            if cluster.exit_status(node) is not None:
                raise FaultError(f"broker {node} was already down: there was nothing to stop")
            cluster.terminate(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that each process ended by itself after SIGTERM, not by a later SIGKILL."""
        for node in nodes:
            status = cluster.exit_status(node)
            if status is None:
                raise FaultError(f"broker {node} still runs after SIGTERM")
            if status not in (0, SIGTERMED):
                raise FaultError(
                    f"broker {node} ended with exit status {status}, not by a controlled "
                    f"shutdown (0 or {SIGTERMED})"
                )
        return "; ".join(f"broker {node} shut down under SIGTERM" for node in nodes)
