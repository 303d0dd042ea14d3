"""SIGTERM and start: a controlled shutdown, as in every rolling restart.

The controller moves leadership away and removes the broker from each ISR before its process ends.
The broker writes `.kafka_cleanshutdown`, so that nothing is recovered or truncated at start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.process._processes import SIGTERMED, Ended, require_running
from ackproof_model.effects import Effects, Ends


class Restart(Ended):
    """Stop brokers with SIGTERM; heal starts them again."""

    explained: ClassVar[bool] = True
    traceless: ClassVar[bool] = True
    past_tense: ClassVar[str] = "was restarted"
    fault: Literal["restart"] = "restart"
    proof: ClassVar[str] = "the process ended by itself after SIGTERM"
    effects: ClassVar[Effects] = (Ends(clean=True),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        require_running(cluster, nodes)
        for node in nodes:
            cluster.processes.terminate(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        """Require that each process ended after SIGTERM, and not by a later SIGKILL."""
        for node in nodes:
            status = cluster.processes.exit_status(node)
            if status is None:
                raise FaultError(f"broker {node} still runs after SIGTERM")
            if status not in (0, SIGTERMED):
                raise FaultError(
                    f"broker {node} ended with exit status {status}, not by a controlled "
                    f"shutdown (0 or {SIGTERMED})"
                )
        return Evidence.joined(f"broker {node} shut down under SIGTERM" for node in nodes)
