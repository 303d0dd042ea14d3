"""A long way: everything that a node sends arrives later, with jitter if asked for (netem)."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import CommandResult
from ackproof_faults.interfaces.kernel import Need
from ackproof_faults.network._queues import Queue


class Latency(Queue):
    """Delay all that the targets send."""

    name: ClassVar[str] = "latency"
    disables: ClassVar[bool] = False
    fault: Literal["latency"] = "latency"
    needs: ClassVar[tuple[Need, ...]] = (Need.NETEM,)
    proof: ClassVar[str] = "a connection from the target takes at least the delay to be refused"
    kind: ClassVar[str] = "netem"
    delay: Duration = Field(default=0.1, gt=0, description="how much later", examples=["100ms"])
    jitter: Duration = Field(default=0.0, ge=0, description="more or less by so much, at random")

    def discipline(self) -> str:
        """Return netem with this delay."""
        jitter = f" {self.jitter * 1000:g}ms" if self.jitter else ""
        return f"netem delay {self.delay * 1000:g}ms{jitter}"

    def trial(self, address: str) -> str:
        """Time a connection to a port where nobody listens: there and back once."""
        return f"TIMEFORMAT=took=%R; time (exec 3<>/dev/tcp/{address}/9) 2>/dev/null"

    def require_bite(self, node: int, result: CommandResult) -> str:
        """Require that it took as long as the delay at the least."""
        took = re.search(r"took=([0-9.]+)", result.output)
        if took is None or float(took[1]) < self.delay - self.jitter:
            raise FaultError(f"node {node} is answered too soon: {result.output.strip()}")
        return f"node {node}: refused after {took[1]} s"
