"""One broker after the other is restarted, as for a new configuration: in good order or in haste.

``wait: isr`` goes on when the broker is back in every ISR, as one should; ``wait: none`` as soon as
it was started again, as one who is in a hurry does. Injecting takes as long as the whole round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field, PrivateAttr

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster
from ackproof_faults.process._ended import Ended
from ackproof_faults.process.kill import SIGKILLED
from ackproof_faults.process.restart import SIGTERMED


class RollingRestart(Ended):
    """Stop and start the targets, one after the other."""

    name: ClassVar[str] = "rolling_restart"
    occupies: ClassVar[str] = "process"
    fault: Literal["rolling_restart"] = "rolling_restart"
    proof: ClassVar[str] = "the exit status of each process, and that each runs again"
    stop: Literal["clean", "hard"] = Field(
        default="clean", description="clean: SIGTERM, a controlled shutdown; hard: SIGKILL"
    )
    wait: Literal["isr", "none"] = Field(
        default="isr", description="before the next: until it is in every ISR again, or not at all"
    )
    within: Duration = Field(default=60.0, gt=0, description="how long a broker may take to return")

    _ended: dict[int, int | None] = PrivateAttr(default_factory=dict)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Restart each in turn; raise FaultError if one does not come back in time."""
        self._ended.clear()
        for node in nodes:
            if cluster.exit_status(node) is not None:
                raise FaultError(f"broker {node} was already down: there was nothing to restart")
            (cluster.terminate if self.stop == "clean" else cluster.kill)(node)
            self._ended[node] = cluster.exit_status(node)
            cluster.start(node)
            if self.wait == "isr":
                cluster.await_in_sync(node, within_s=self.within)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that each ended as asked for, and runs."""
        wanted = (0, SIGTERMED) if self.stop == "clean" else (SIGKILLED,)
        for node in nodes:
            if node not in self._ended or self._ended[node] not in wanted:
                raise FaultError(f"broker {node} ended with exit status {self._ended.get(node)}")
            if cluster.exit_status(node) is not None:
                raise FaultError(f"broker {node} does not run again")
        return "; ".join(
            f"broker {node} ended with {self._ended[node]} and runs again" for node in nodes
        )
