"""A broker crashes repeatedly: it is started, and killed before or after it has recovered.

The injection takes as long as the loop. Afterwards the broker is down until heal starts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_faults.process._processes import Ended, require_running, require_sigkilled
from ackproof_model.effects import Effects, Ends

_WITHIN_S = 60.0
#: What brokers of all versions log at each start: `LogManager.startup` when the logs are loaded,
#: `KafkaRaftServer` or `KafkaServer` at the end.
_LOG_LINES = {
    "loaded": "Starting log cleanup with a period of",
    "serving": "started (kafka.server.Kafka",
}


class CrashLoop(Ended):
    """Kill brokers with SIGKILL, several times, each time after a start; heal starts them again."""

    requires: ClassVar[InterfaceNames] = ("metadata", "processes", "logs")
    explained: ClassVar[bool] = True
    traceless: ClassVar[bool] = True
    past_tense: ClassVar[str] = "was killed again and again"
    fault: Literal["crash_loop"] = "crash_loop"
    proof: ClassVar[str] = (
        "the broker is down by SIGKILL, and its log showed each start before the next kill"
    )
    times: int = Field(default=3, ge=2, le=20, description="how often it is killed")
    after: Literal["loaded", "serving"] = Field(
        default="loaded",
        description="kill again once the broker has loaded its logs, or once it serves requests",
    )

    @property
    def effects(self) -> Effects:
        return (Ends(times=self.times),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> Mapping[int, int]:
        """Return how often each broker was seen to start."""
        require_running(cluster, nodes)
        starts = dict.fromkeys(nodes, 0)
        for node in nodes:
            cluster.processes.kill(node)
            for _ in range(self.times - 1):
                since = datetime.now(UTC)
                cluster.processes.start(node)
                line = _LOG_LINES[self.after]
                cluster.logs.await_line(node, line, since=since, within_s=_WITHIN_S)
                starts[node] += 1
                cluster.processes.kill(node)
        return starts

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: Mapping[int, int]) -> Evidence:
        require_sigkilled(cluster, nodes)
        for node, starts in done.items():
            if starts != self.times - 1:
                raise FaultError(f"broker {node} started {starts} times between its kills")
        return Evidence.joined(f"broker {node} was killed {self.times} times" for node in nodes)
