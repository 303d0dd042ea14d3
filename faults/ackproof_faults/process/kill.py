"""SIGKILL: the process is gone at once, the page cache and so the log files survive.

This is a crash of the process, not of the machine: data the broker appended but never fsynced
is still there when it comes back. What is lost is what no other replica had fetched when
another broker became leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster
from ackproof_faults.process._ended import Ended

#: 128 + SIGKILL, what the container engine reports for a process killed by signal 9.
SIGKILLED = 137


class Kill(Ended):
    """Kill brokers with SIGKILL; heal starts them again with their identity and data."""

    name: ClassVar[str] = "kill"
    occupies: ClassVar[str] = "process"
    fault: Literal["kill"] = "kill"
    proof: ClassVar[str] = "the process ended by SIGKILL"

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Kill each broker."""
        for node in nodes:
            if cluster.exit_status(node) is not None:
                raise FaultError(f"broker {node} was already down: there was nothing to kill")
            cluster.kill(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that each process ended by SIGKILL."""
        for node in nodes:
            status = cluster.exit_status(node)
            if status is None:
                raise FaultError(f"broker {node} still runs after SIGKILL")
            if status != SIGKILLED:
                raise FaultError(
                    f"broker {node} ended with exit status {status}, not by SIGKILL ({SIGKILLED})"
                )
        return "; ".join(f"broker {node} ended by SIGKILL (exit {SIGKILLED})" for node in nodes)
