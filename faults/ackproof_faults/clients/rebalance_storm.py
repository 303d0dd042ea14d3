"""Consumers leave their group and join it again at intervals, so that it rebalances repeatedly.

Each rebalance assigns all partitions anew. Another member reads records again that were processed
and not committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.clients._client_fault import OrderedFault
from ackproof_faults.conditions.durations import Duration
from ackproof_faults.fault import Problem, Shape
from ackproof_faults.interfaces.clients import Order
from ackproof_model.effects import ClientAction


class RebalanceStorm(OrderedFault):
    """Make consumers leave and join their group at intervals."""

    fault: Literal["rebalance_storm"] = "rebalance_storm"
    action: ClassVar[ClientAction] = "rejoins"
    proof: ClassVar[str] = "the client has counted two new assignments of partitions"
    proved_by: ClassVar[int] = 2
    client: str = Field(
        default="consumers",
        pattern=r"^(consumers|consumer [0-9]+)$",
        description="consumers that subscribe, or one of them by its number from 0",
    )
    every: Duration = Field(default=1.0, gt=0, description="how long they stay in the group")
    # An empty group waits group.initial.rebalance.delay.ms (3 s) for more members.
    within: Duration = Field(
        default=30.0, gt=0, description="how long to wait until the client shows the effect"
    )

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from super().problems(shape)
        if shape.consumers and not shape.subscribing:
            yield (
                "client",
                "no group rebalances: the consumers of all groups are assigned their partitions "
                "(via: assign)",
            )

    @property
    def order(self) -> tuple[Order, int]:
        return "rejoin", max(1, int(self.every * 1000))

    @property
    def counted(self) -> str:
        return "new assignments"
