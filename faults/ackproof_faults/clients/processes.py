"""A client dies, or is stopped for a while.

It dies by SIGKILL, or because its program ends without a flush. Records that a producer sent
without a delivery report may be written or not. Records in its queue are gone. The next producer
with its transactional.id, or the transaction's timeout, aborts an open transaction. A consumer's
partitions are reassigned when its session times out.

It is stopped by SIGSTOP, as by a long garbage collection or a suspended machine. Its connections
stay open and its heartbeats end. A consumer that is stopped for longer than `session.timeout.ms`
loses its partitions and does not know it. A producer is a zombie if another producer takes its
transactional.id meanwhile; brokers must fence it (KIP-98, KIP-447).
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.clients._client_fault import ClientFault
from ackproof_faults.evidence import FaultError
from ackproof_faults.interfaces.clients import Clients, End
from ackproof_model.effects import Client, ClientAction, Effects


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


class PauseClient(ClientFault):
    """Stop clients with SIGSTOP; heal continues them."""

    fault: Literal["pause_client"] = "pause_client"
    proof: ClassVar[str] = "the operating system reports the process stopped"
    successor: bool = Field(
        default=False,
        description="start another client in its place meanwhile, which makes a producer with "
        "transactions a zombie",
    )

    @property
    def effects(self) -> Effects:
        return (Client(role=self.role, action="stalls", successor=self.successor),)

    def start(self, clients: Clients, client: str) -> None:
        if clients.is_stopped(client):
            raise FaultError(f"{client} is already stopped")
        clients.stop(client)
        if self.successor:
            clients.succeed(client)

    def require_effect(self, clients: Clients, client: str) -> str:
        if not clients.is_stopped(client):
            raise FaultError(f"{client} is not stopped")
        if not self.successor:
            return f"{client} is stopped"
        successor = clients.succeed(client)
        if not clients.await_begun(successor, within_s=self.within):
            raise FaultError(f"{successor}, the successor of {client}, does not work yet")
        return f"{client} is stopped, and {successor} has taken its place"

    def stop(self, clients: Clients, client: str) -> None:
        clients.resume(client)

    def works(self, clients: Clients, client: str) -> bool:
        return not clients.is_stopped(client)
