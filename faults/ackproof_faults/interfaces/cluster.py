"""The interfaces that a cluster under test offers to faults.

A fault names those that it uses (`Fault.requires`). A cluster that ackproof started offers all;
an attached cluster offers `metadata`, `clients`, and `processes` where the scenario lists
containers. What is missing is refused in one place, before the run (`missing`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, Literal, TypeVar, get_args

from ackproof_faults.errors import FaultError
from ackproof_faults.interfaces.broker_logs import BrokerLogs
from ackproof_faults.interfaces.clients import Clients
from ackproof_faults.interfaces.clocks import Clocks
from ackproof_faults.interfaces.kafka_proxy import Link
from ackproof_faults.interfaces.metadata import Controllers, Metadata
from ackproof_faults.interfaces.network import NetworkNamespace
from ackproof_faults.interfaces.operations import Operations
from ackproof_faults.interfaces.processes import Freezer, Memory, Processes
from ackproof_faults.interfaces.volumes import Volumes

InterfaceName = Literal[
    "metadata",
    "controllers",
    "processes",
    "freezer",
    "memory",
    "network",
    "volumes",
    "logs",
    "clocks",
    "operations",
    "clients",
    "proxy",
]
InterfaceNames = tuple[InterfaceName, ...]
INTERFACES: InterfaceNames = get_args(InterfaceName)

T = TypeVar("T")


class _Offered(Generic[T]):
    """An interface of the cluster; reading one that it lacks raises FaultError with the advice."""

    def __init__(self, advice: str = "use a cluster that ackproof starts") -> None:
        self.advice = advice

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, cluster: Cluster, owner: type) -> T:
        try:
            return cluster.offered[self.name]  # type: ignore[no-any-return]
        except KeyError:
            message = f"this cluster does not offer {self.name} to faults: {self.advice}"
            raise FaultError(message) from None


class Cluster:
    """The interfaces of one cluster; `offered` holds their implementations by name.

    `clients` is added once the run's clients exist.
    """

    metadata = _Offered[Metadata]()
    controllers = _Offered[Controllers]()
    processes = _Offered[Processes]()
    freezer = _Offered[Freezer]()
    memory = _Offered[Memory]()
    network = _Offered[NetworkNamespace]()
    volumes = _Offered[Volumes]()
    logs = _Offered[BrokerLogs]()
    clocks = _Offered[Clocks]("set cluster.clock: adjustable")
    operations = _Offered[Operations]()
    clients = _Offered[Clients]("only runs of a scenario have clients")
    proxy = _Offered[Link]("set cluster.proxied")

    def __init__(self, **offered: Any) -> None:
        if unknown := offered.keys() - set(INTERFACES):
            raise ValueError(f"{sorted(unknown)} are not interfaces ({', '.join(INTERFACES)})")
        self.offered: dict[str, Any] = offered

    def offer(self, name: InterfaceName, implementation: object) -> None:
        """Add an interface that came later."""
        self.offered[name] = implementation

    def missing(self, required: Iterable[InterfaceName]) -> list[InterfaceName]:
        """Return which of these interfaces the cluster lacks, in the given order."""
        return [name for name in required if name not in self.offered]
