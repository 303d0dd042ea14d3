"""A client is slow: its delivery callbacks block, or it processes records slowly.

A producer's callbacks run in its poll. While a callback blocks, no other outcome is reported, and
the queue fills. A consumer that polls later than `max.poll.interval.ms` leaves its group.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.clients._client_fault import OrderedFault
from ackproof_faults.conditions.durations import Duration
from ackproof_faults.interfaces.clients import Order
from ackproof_model.effects import ClientAction


class SlowClient(OrderedFault):
    """Make clients busy for a while each time a poll returns something."""

    fault: Literal["slow_client"] = "slow_client"
    action: ClassVar[ClientAction] = "slows"
    proof: ClassVar[str] = (
        "the client has counted a poll whose delivery reports or records took that long"
    )
    delay: Duration = Field(gt=0, description="for how long, each time", examples=["500ms"])

    @property
    def order(self) -> tuple[Order, int]:
        return "slow", max(1, int(self.delay * 1000))

    @property
    def counted(self) -> str:
        return f"polls whose callbacks took {self.delay:g} s"
