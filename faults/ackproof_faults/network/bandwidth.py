"""A bandwidth limit on what a node sends (tbf)."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.errors import FaultError
from ackproof_faults.interfaces.command import CommandResult
from ackproof_faults.interfaces.kernel import Need
from ackproof_faults.network._queues import Queue, show_queue
from ackproof_model.effects import Effects, Slows


class Bandwidth(Queue):
    """Limit the bandwidth of everything that the targets send."""

    name: ClassVar[str] = "bandwidth"
    fault: Literal["bandwidth"] = "bandwidth"
    needs: ClassVar[tuple[Need, ...]] = (Need.TBF,)
    proof: ClassVar[str] = "the kernel's counters: packets had to wait for the limit"
    kind: ClassVar[str] = "tbf"
    rate: str = Field(
        default="1mbit",
        pattern=r"^[1-9][0-9]*(kbit|mbit|gbit)$",
        description="bits a second",
        examples=["500kbit", "10mbit"],
    )

    @property
    def effects(self) -> Effects:
        return (Slows(),)

    def discipline(self) -> str:
        """Return tbf with a bucket of 32 kbit: about three full packets."""
        return f"tbf rate {self.rate} burst 32kbit latency 400ms"

    def trial(self, address: str) -> str:
        """Send more than the bucket holds, to a port on which nobody listens."""
        return f"head -c 200000 /dev/zero > /dev/udp/{address}/9 || :\n{show_queue()}"

    def require_effect(self, node: int, result: CommandResult) -> str:
        over = re.search(r"tbf(?s:.)*?overlimits (\d+)", result.output)
        if over is None or over[1] == "0":
            raise FaultError(f"node {node} sends without a limit: {result.output.strip()}")
        return f"node {node}: {over[1]} packets had to wait"
