"""A producer throws away what it has not sent, and (`all`) forgets what is on its way.

What is purged from the queue was never written; of what was on its way nobody knows. With
idempotence a purge leaves a gap in the sequence numbers, which the producer closes by a new epoch.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.clients._client_fault import OrderedFault
from ackproof_faults.interfaces.clients import Order


class PurgeClient(OrderedFault):
    """Have producers purge their queue each time round."""

    name: ClassVar[str] = "purge_client"
    fault: Literal["purge_client"] = "purge_client"
    proof: ClassVar[str] = "the client has counted sends that its purge ended"
    client: str = Field(
        default="producers",
        pattern=r"^(producers|producer [0-9]+)$",
        description="producers, or one of them by its number from 0",
    )
    what: Literal["queue", "all"] = Field(
        default="all", description="what waits to be sent, or what is on its way, too"
    )

    @property
    def orders(self) -> tuple[Order, int]:
        """Purge."""
        return ("purge_all" if self.what == "all" else "purge_queue"), 0

    @property
    def done(self) -> str:
        """Sends that were purged."""
        return "sends purged"
