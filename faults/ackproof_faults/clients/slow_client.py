"""A client is slow with what Kafka hands it: delivery callbacks that block, processing that drags.

A producer's callbacks run in its poll: while one blocks, no other outcome is told, and the queue
fills. A consumer that comes back to poll later than `max.poll.interval.ms` is out of its group.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.clients._client_fault import OrderedFault
from ackproof_faults.conditions.durations import Duration
from ackproof_faults.interfaces.clients import Order


class SlowClient(OrderedFault):
    """Have clients be busy for long each time a poll returns something."""

    name: ClassVar[str] = "slow_client"
    fault: Literal["slow_client"] = "slow_client"
    proof: ClassVar[str] = (
        "the client has counted a poll whose delivery reports or records took so long"
    )
    delay: Duration = Field(gt=0, description="for how long, each time", examples=["500ms"])

    @property
    def orders(self) -> tuple[Order, int]:
        """Dawdle."""
        return "dawdle", max(1, int(self.delay * 1000))

    @property
    def done(self) -> str:
        """Polls that took long."""
        return f"polls whose callbacks took {self.delay:g} s"
