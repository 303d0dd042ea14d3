"""What faults of clients have in common: they hit processes of the run, and touch no broker."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field, PrivateAttr

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.conditions.targets import Target, TargetSpec
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Fault
from ackproof_faults.interfaces.clients import ClientName, Clients, Order


class ClientFault(Fault):
    """A fault of the run's own producers or consumers."""

    disables: ClassVar[bool] = False

    target: Target = Field(
        default=TargetSpec(role="all"), description="ignored: the fault is a client's"
    )
    client: ClientName
    within: Duration = Field(
        default=10.0, gt=0, description="how long to wait for the client to show its effect"
    )

    #: Whom it hit.
    _struck: tuple[str, ...] = PrivateAttr(default=())

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Strike each client that has one of the places."""
        self._struck = ()
        clients = cluster.clients()
        found = clients.running(self.client)
        if not found:
            raise FaultError(f"no client runs as {self.client}")
        for client in found:
            self.strike(clients, client)
            self._struck += (client,)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require the proof from each."""
        if not self._struck:
            raise FaultError("no client was hit")
        return "; ".join(self.proved(cluster.clients(), client) for client in self._struck)

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Release each."""
        for client in self._struck:
            self.release(cluster.clients(), client)

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int]) -> bool:
        """Whether each works again."""
        return all(self.released(cluster.clients(), client) for client in self._struck)

    @abstractmethod
    def strike(self, clients: Clients, client: str) -> None:
        """Put the fault into force at one client; raise FaultError if that fails."""

    @abstractmethod
    def proved(self, clients: Clients, client: str) -> str:
        """Return the proof that it holds there; raise FaultError if it does not."""

    @abstractmethod
    def release(self, clients: Clients, client: str) -> None:
        """End the fault there; twice is a no-op."""

    @abstractmethod
    def released(self, clients: Clients, client: str) -> bool:
        """Whether the client works again."""


class OrderedFault(ClientFault):
    """A client does wrong what it is told to do wrong, and says how often."""

    #: So often must it have been done to prove it.
    proved_by: ClassVar[int] = 1

    @property
    @abstractmethod
    def orders(self) -> tuple[Order, int]:
        """What the client is told, and the milliseconds that belong to it."""

    @property
    @abstractmethod
    def done(self) -> str:
        """What the client counts, in words."""

    def strike(self, clients: Clients, client: str) -> None:
        """Tell the client."""
        order, milliseconds = self.orders
        clients.order(client, order, milliseconds=milliseconds)

    def proved(self, clients: Clients, client: str) -> str:
        """Require that it was done."""
        count = clients.obeyed(client, more_than=self.proved_by - 1, within_s=self.within)
        if count < self.proved_by:
            raise FaultError(f"{client}: {count} {self.done} within {self.within:g} s")
        return f"{client}: {count} {self.done}"

    def release(self, clients: Clients, client: str) -> None:
        """Tell the client to go on as ever."""
        clients.order(client, "nothing")

    def released(self, clients: Clients, client: str) -> bool:
        """Whether it was told so: a client looks every round."""
        return True
