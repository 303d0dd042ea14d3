"""Consumers leave their group and join it again, over and over: rebalance after rebalance.

Each time everybody's partitions are dealt anew; what was processed and not committed is read again
by somebody else.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.clients._client_fault import OrderedFault
from ackproof_faults.conditions.durations import Duration
from ackproof_faults.interfaces.clients import Order


class RebalanceStorm(OrderedFault):
    """Have consumers leave and join their group, every so long."""

    name: ClassVar[str] = "rebalance_storm"
    fault: Literal["rebalance_storm"] = "rebalance_storm"
    proof: ClassVar[str] = "the client has counted partitions dealt to it anew, twice"
    proved_by: ClassVar[int] = 2
    client: str = Field(
        default="consumers",
        pattern=r"^(consumers|consumer [0-9]+)$",
        description="consumers that subscribe, or one of them by its number from 0",
    )
    every: Duration = Field(default=1.0, gt=0, description="so long they stay in the group")
    # A group that all have left waits group.initial.rebalance.delay.ms (3 s) for more members.
    within: Duration = Field(
        default=30.0, gt=0, description="how long to wait for the client to show its effect"
    )

    @property
    def orders(self) -> tuple[Order, int]:
        """Leave and join."""
        return "rejoin", max(1, int(self.every * 1000))

    @property
    def done(self) -> str:
        """Assignments."""
        return "times dealt partitions anew"
