"""The base of faults that hit client processes of the run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.conditions.targets import Target
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Fault, Problem, Shape, untargeted
from ackproof_faults.interfaces.clients import ClientName, Clients
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_model.effects import Client, ClientAction, Effects


class ClientFault(Fault):
    """A fault of the run's own producers or consumers."""

    requires: ClassVar[InterfaceNames] = ("clients",)
    hits: ClassVar[str] = "client"
    disables: ClassVar[bool] = False
    explained: ClassVar[bool] = True
    traceless: ClassVar[bool] = True

    target: Target = untargeted("ignored: the fault hits clients")
    client: ClientName
    within: Duration = Field(
        default=10.0, gt=0, description="how long to wait until the client shows the effect"
    )

    #: Behaviour of its clients in the model.
    action: ClassVar[ClientAction]

    @property
    def effects(self) -> Effects:
        return (Client(role=self.role, action=self.action),)

    @property
    def role(self) -> Literal["producer", "consumer"]:
        return "producer" if self.client.startswith("producer") else "consumer"

    def problems(self, shape: Shape) -> Iterator[Problem]:
        noun, _, number = self.client.partition(" ")
        count = shape.producers if noun.startswith("producer") else shape.consumers
        if count == 0:
            yield "client", "there are no consumers: name a group in workload.consumers"
        elif number and int(number) >= count:
            yield (
                "client",
                f"there is no {self.client}: the first {count} are numbered 0 to {count - 1}",
            )

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> tuple[str, ...]:
        """Return the names of the clients that were hit."""
        running = cluster.clients.running(self.client)
        if not running:
            raise FaultError(f"no client runs as {self.client}")
        hit: list[str] = []
        try:
            for client in running:
                self.start(cluster.clients, client)
                hit.append(client)
        except FaultError:
            for client in hit:
                self.stop(cluster.clients, client)
            raise
        return tuple(hit)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: tuple[str, ...]) -> Evidence:
        if not done:
            raise FaultError("the fault reached no client")
        return Evidence.joined(self.require_effect(cluster.clients, client) for client in done)

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: tuple[str, ...] | None) -> None:
        for client in done or ():
            self.stop(cluster.clients, client)

    def verify_healed(
        self, cluster: Cluster, nodes: Sequence[int], done: tuple[str, ...] | None
    ) -> bool:
        return all(self.works(cluster.clients, client) for client in done or ())

    @abstractmethod
    def start(self, clients: Clients, client: str) -> None:
        """Start the fault at one client; raise FaultError if that fails."""

    @abstractmethod
    def require_effect(self, clients: Clients, client: str) -> str:
        """Return the proof that the client shows the fault; raise FaultError if it does not."""

    @abstractmethod
    def stop(self, clients: Clients, client: str) -> None:
        """End the fault at the client. A second call changes nothing."""

    @abstractmethod
    def works(self, clients: Clients, client: str) -> bool:
        """Whether the client works again."""
