"""A client dies: by SIGKILL, or because its program ends and forgets to flush.

What a producer has sent and had no report of may be written or not. What is in its queue is gone.
A transaction that it leaves open is aborted, by the next one with its transactional.id or by the
transaction's timeout. A consumer's partitions go to others when its session times out.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.clients._client_fault import ClientFault
from ackproof_faults.errors import FaultError
from ackproof_faults.interfaces.clients import Clients, End


class CrashClient(ClientFault):
    """End clients at once; heal starts others in their places."""

    name: ClassVar[str] = "crash_client"
    fault: Literal["crash_client"] = "crash_client"
    proof: ClassVar[str] = "the process has ended as it was to"
    how: End = Field(
        default="kill",
        description="kill: SIGKILL; exit: the program ends, and waits for nothing that it has sent",
    )

    def strike(self, clients: Clients, client: str) -> None:
        """End it."""
        clients.end(client, self.how)

    def proved(self, clients: Clients, client: str) -> str:
        """Require that it ended so."""
        ended = clients.ended_by(client)
        if ended != self.how:
            raise FaultError(f"{client} has not ended by {self.how}")
        return f"{client} ended by {'SIGKILL' if ended == 'kill' else 'an exit without flush'}"

    def release(self, clients: Clients, client: str) -> None:
        """Start another one in its place."""
        clients.succeed(client)

    def released(self, clients: Clients, client: str) -> bool:
        """Whether the other one works."""
        return clients.begun(clients.succeed(client))
