"""A producer's buffer is full, because it gets more records than it sends.

librdkafka refuses further records (`_QUEUE_FULL`) once `queue.buffering.max.messages` (100,000) or
`queue.buffering.max.kbytes` are in its queue. Records whose report was not polled count as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from ackproof_faults.clients._client_fault import OrderedFault
from ackproof_faults.fault import Problem, Shape
from ackproof_faults.interfaces.clients import Order, ProducerName
from ackproof_model.effects import ClientAction


class FillBuffer(OrderedFault):
    """Make producers fill their queue until it is full, without polling."""

    fault: Literal["fill_buffer"] = "fill_buffer"
    action: ClassVar[ClientAction] = "fills"
    proof: ClassVar[str] = "the client has counted refusals for a full queue (_QUEUE_FULL)"
    client: ProducerName = "producers"

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from super().problems(shape)
        if shape.transactions:
            yield (
                "fault",
                "a producer with transactions waits for the delivery reports of each transaction: "
                "its buffer never fills",
            )

    @property
    def order(self) -> tuple[Order, int]:
        return "fill", 0

    @property
    def counted(self) -> str:
        return "records refused for a full queue (_QUEUE_FULL)"
