"""Packets that a node sends are delayed, with jitter if configured (netem)."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.errors import FaultError
from ackproof_faults.interfaces.command import CommandResult
from ackproof_faults.interfaces.kernel import Need
from ackproof_faults.network._queues import Queue
from ackproof_model.effects import Effects, Slows


class Latency(Queue):
    """Delay all packets that the targets send."""

    name: ClassVar[str] = "latency"
    fault: Literal["latency"] = "latency"
    needs: ClassVar[tuple[Need, ...]] = (Need.NETEM,)
    proof: ClassVar[str] = "a connection from the target is refused no sooner than the delay"
    kind: ClassVar[str] = "netem"
    delay: Duration = Field(
        default=0.1, gt=0, description="the delay of each packet", examples=["100ms"]
    )
    jitter: Duration = Field(
        default=0.0, ge=0, description="how much the delay varies at random, up and down"
    )

    @property
    def effects(self) -> Effects:
        return (Slows(by=self.delay + self.jitter),)

    def discipline(self) -> str:
        jitter = f" {self.jitter * 1000:g}ms" if self.jitter else ""
        return f"netem delay {self.delay * 1000:g}ms{jitter}"

    def trial(self, address: str) -> str:
        """Time a connection to a port on which nobody listens: one round trip."""
        return f"TIMEFORMAT=took=%R; time (exec 3<>/dev/tcp/{address}/9) 2>/dev/null"

    def require_effect(self, node: int, result: CommandResult) -> str:
        took = re.search(r"took=([0-9.]+)", result.output)
        if took is None or float(took[1]) < self.delay - self.jitter:
            raise FaultError(
                f"node {node} is answered in less than the delay: {result.output.strip()}"
            )
        return f"node {node}: refused after {took[1]} s"
