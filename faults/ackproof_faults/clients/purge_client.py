"""A producer discards records that it has not sent, and with ``all`` also those in flight.

Records purged from the queue were never written; records in flight may be written or not. With
idempotence a purge leaves a gap in the sequence numbers; the producer continues with a new epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.clients._client_fault import OrderedFault
from ackproof_faults.fault import Problem, Shape
from ackproof_faults.interfaces.clients import Order, ProducerName
from ackproof_model.effects import Client, ClientAction, Effects


class PurgeClient(OrderedFault):
    """Make producers purge their queue in every round."""

    fault: Literal["purge_client"] = "purge_client"
    proof: ClassVar[str] = "the client has counted sends that its purge ended"
    client: ProducerName = "producers"
    what: Literal["queue", "all"] = Field(
        default="all", description="queue: records that wait to be sent; all: those in flight, too"
    )

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from super().problems(shape)
        if shape.java:
            yield "client", "the Java client cannot purge its queue: use librdkafka as the client"

    @property
    def effects(self) -> Effects:
        action: ClientAction = "purges_queue" if self.what == "queue" else "purges"
        return (Client(role=self.role, action=action),)

    @property
    def order(self) -> tuple[Order, int]:
        return ("purge_all" if self.what == "all" else "purge_queue"), 0

    @property
    def counted(self) -> str:
        return "sends purged"
