"""The process stands still (the engine's freezer): connections stay open, nothing answers.

Shorter than a session (`broker.session.timeout.ms`, 9 s), nobody but its clients notices; longer,
and the controller fences the broker, which still believes that it leads when it goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Fault


class Pause(Fault):
    """Freeze brokers; heal lets them go on where they stood."""

    name: ClassVar[str] = "pause"
    occupies: ClassVar[str] = "process"
    fault: Literal["pause"] = "pause"
    proof: ClassVar[str] = "the engine calls the broker frozen, and it does not answer a client"

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Freeze each broker."""
        for node in nodes:
            if cluster.exit_status(node) is not None:
                raise FaultError(f"broker {node} is down: there is nothing to freeze")
            cluster.pause(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that each is frozen and does not answer."""
        for node in nodes:
            if not cluster.paused(node):
                raise FaultError(f"broker {node} is not frozen")
            if cluster.answers(node):
                raise FaultError(f"broker {node} still answers")
        return "; ".join(f"broker {node} is frozen and does not answer" for node in nodes)

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Let each go on."""
        for node in nodes:
            cluster.resume(node)
