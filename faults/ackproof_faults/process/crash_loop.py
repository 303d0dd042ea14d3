"""A broker that dies again and again: it is started, and killed before or after it has recovered.

Injecting takes as long as the loop; in the end the broker is down, until heal starts it for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar, Literal

from pydantic import Field, PrivateAttr

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster
from ackproof_faults.process._ended import Ended
from ackproof_faults.process.kill import SIGKILLED

_WITHIN_S = 60.0
#: What a broker of any version logs in each of its lives: `LogManager.startup` when its logs are
#: loaded, `KafkaRaftServer` or `KafkaServer` at the end.
_SAID = {
    "loaded": "Starting log cleanup with a period of",
    "serving": "started (kafka.server.Kafka",
}


class CrashLoop(Ended):
    """SIGKILL brokers, and each time they have come up again; heal starts them once more."""

    name: ClassVar[str] = "crash_loop"
    occupies: ClassVar[str] = "process"
    fault: Literal["crash_loop"] = "crash_loop"
    proof: ClassVar[str] = (
        "the broker is down by SIGKILL, and was seen alive in its log before each further kill"
    )
    times: int = Field(default=3, ge=2, le=20, description="how often it is killed")
    after: Literal["loaded", "serving"] = Field(
        default="loaded",
        description="killed again once it has loaded its logs, or once it serves requests",
    )

    _lives: dict[int, int] = PrivateAttr(default_factory=dict)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Kill, and start and kill, one broker after the other."""
        self._lives.clear()
        for node in nodes:
            if cluster.exit_status(node) is not None:
                raise FaultError(f"broker {node} was already down: there was nothing to kill")
            cluster.kill(node)
            for _ in range(self.times - 1):
                since = datetime.now(UTC)
                cluster.start(node)
                cluster.await_logged(node, _SAID[self.after], since=since, within_s=_WITHIN_S)
                self._lives[node] = self._lives.get(node, 0) + 1
                cluster.kill(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that each is down by SIGKILL, and has lived between its deaths."""
        for node in nodes:
            status, lives = cluster.exit_status(node), self._lives.get(node, 0)
            if status != SIGKILLED or lives != self.times - 1:
                raise FaultError(
                    f"broker {node} has exit status {status} after {lives} lives in between"
                )
        return "; ".join(f"broker {node} was killed {self.times} times" for node in nodes)
