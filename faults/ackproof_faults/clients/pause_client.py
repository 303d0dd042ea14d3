"""A client stands still (SIGSTOP): a long garbage collection, a suspended machine, a debugger.

Its connections stay open and its heartbeats end. A consumer that stands still for longer than
`session.timeout.ms` loses its partitions and does not know it. A producer whose transactional.id
another one takes meanwhile is a zombie, which brokers must fence (KIP-98, KIP-447).
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.clients._client_fault import ClientFault
from ackproof_faults.errors import FaultError
from ackproof_faults.interfaces.clients import Clients


class PauseClient(ClientFault):
    """Have clients stand still; heal lets them go on."""

    name: ClassVar[str] = "pause_client"
    fault: Literal["pause_client"] = "pause_client"
    proof: ClassVar[str] = "the operating system calls the process stopped"
    successor: bool = Field(
        default=False,
        description="start another client in its place meanwhile, which makes a producer with "
        "transactions a zombie",
    )

    def strike(self, clients: Clients, client: str) -> None:
        """Stop it, and start who takes its place."""
        if clients.stands_still(client):
            raise FaultError(f"{client} stands still already")
        clients.stop(client)
        if self.successor:
            clients.succeed(client)

    def proved(self, clients: Clients, client: str) -> str:
        """Require that it is stopped, and that its successor works."""
        if not clients.stands_still(client):
            raise FaultError(f"{client} does not stand still")
        if not self.successor:
            return f"{client} stands still"
        heir = clients.succeed(client)
        if not clients.await_begun(heir, within_s=self.within):
            raise FaultError(f"{heir}, in the place of {client}, has not begun")
        return f"{client} stands still, and {heir} has taken its place"

    def release(self, clients: Clients, client: str) -> None:
        """Let it go on."""
        clients.go_on(client)

    def released(self, clients: Clients, client: str) -> bool:
        """Whether it does not stand still any more."""
        return not clients.stands_still(client)
