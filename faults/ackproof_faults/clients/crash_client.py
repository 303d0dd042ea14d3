"""A client dies: by SIGKILL, or because its program ends without a flush.

Records that a producer sent without a delivery report may be written or not. Records in its queue
are gone. The next producer with its transactional.id, or the transaction's timeout, aborts an open
transaction. A consumer's partitions are reassigned when its session times out.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.clients._client_fault import ClientFault
from ackproof_faults.evidence import FaultError
from ackproof_faults.interfaces.clients import Clients, End
from ackproof_model.effects import ClientAction


class CrashClient(ClientFault):
    """End clients at once; heal starts others in their place."""

    fault: Literal["crash_client"] = "crash_client"
    action: ClassVar[ClientAction] = "ends"
    proof: ClassVar[str] = "the process ended in the requested way"
    how: End = Field(
        default="kill",
        description="kill: SIGKILL; exit: the program ends without waiting for what it has sent",
    )

    def start(self, clients: Clients, client: str) -> None:
        clients.end(client, self.how)

    def require_effect(self, clients: Clients, client: str) -> str:
        ended = clients.ended_by(client)
        if ended != self.how:
            raise FaultError(f"{client} has not ended by {self.how}")
        return f"{client} ended by {'SIGKILL' if ended == 'kill' else 'an exit without flush'}"

    def stop(self, clients: Clients, client: str) -> None:
        clients.succeed(client)

    def works(self, clients: Clients, client: str) -> bool:
        return clients.begun(clients.succeed(client))
