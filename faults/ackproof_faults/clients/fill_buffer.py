"""A producer's buffer is full: more is handed over than is sent, and no delivery report is served.

librdkafka refuses further records (`_QUEUE_FULL`) once `queue.buffering.max.messages` (100,000) or
`queue.buffering.max.kbytes` are in its queue; those whose report nobody has polled for count, too.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.clients._client_fault import OrderedFault
from ackproof_faults.interfaces.clients import Order


class FillBuffer(OrderedFault):
    """Have producers hand over records until none is taken any more, and not poll."""

    name: ClassVar[str] = "fill_buffer"
    fault: Literal["fill_buffer"] = "fill_buffer"
    proof: ClassVar[str] = "the client has counted refusals for want of room (_QUEUE_FULL)"
    client: str = Field(
        default="producers",
        pattern=r"^(producers|producer [0-9]+)$",
        description="producers, or one of them by its number from 0",
    )

    @property
    def orders(self) -> tuple[Order, int]:
        """Fill the queue."""
        return "fill", 0

    @property
    def done(self) -> str:
        """Refusals."""
        return "times refused for want of room (_QUEUE_FULL)"
