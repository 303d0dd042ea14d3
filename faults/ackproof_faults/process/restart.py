"""SIGTERM and start: a controlled shutdown of all targets, or of one after the other.

The controller moves leadership away and removes the broker from each ISR before its process ends.
The broker writes `.kafka_cleanshutdown`, so that nothing is recovered or truncated at start.

A rolling restart continues, with ``wait: isr``, when the broker is back in every ISR, and with
``wait: none`` when it has been started. Its injection takes as long as all restarts together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.process._processes import SIGKILLED, SIGTERMED, Ended, require_running
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


class RollingRestart(Ended):
    """Stop and start the targets, one after the other."""

    explained: ClassVar[bool] = True
    traceless: ClassVar[bool] = True
    past_tense: ClassVar[str] = "was restarted"
    fault: Literal["rolling_restart"] = "rolling_restart"
    proof: ClassVar[str] = "the exit status of each process, and that each runs again"
    stop: Literal["clean", "hard"] = Field(
        default="clean", description="clean: SIGTERM, a controlled shutdown; hard: SIGKILL"
    )
    wait: Literal["isr", "none"] = Field(
        default="isr",
        description="before the next broker: wait until this one is in every ISR, or do not wait",
    )
    within: Duration = Field(default=60.0, gt=0, description="how long a broker may take to return")

    @property
    def effects(self) -> Effects:
        return (
            Ends(
                clean=self.stop == "clean",
                one_by_one="in_sync" if self.wait == "isr" else "started",
            ),
        )

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> Mapping[int, int | None]:
        """Return the exit status of each process; raise FaultError if a broker does not return."""
        processes = cluster.processes
        statuses = {}
        for node in nodes:
            require_running(cluster, [node])
            (processes.terminate if self.stop == "clean" else processes.kill)(node)
            statuses[node] = processes.exit_status(node)
            processes.start(node)
            if self.wait == "isr":
                cluster.metadata.await_in_sync(node, within_s=self.within)
        return statuses

    def verify(
        self, cluster: Cluster, nodes: Sequence[int], done: Mapping[int, int | None]
    ) -> Evidence:
        legal = (0, SIGTERMED) if self.stop == "clean" else (SIGKILLED,)
        for node, status in done.items():
            if status not in legal:
                raise FaultError(f"broker {node} ended with exit status {status}, not {legal}")
            if cluster.processes.exit_status(node) is not None:
                raise FaultError(f"broker {node} has not started again")
        return Evidence.joined(
            f"broker {node} ended with {status} and runs again" for node, status in done.items()
        )
