"""The nodes of a cluster: their ids, names, listeners and ports, and where metadata is kept.

Controllers are nodes of their own unless a scenario combines them with brokers: in combined mode a
fault on two nodes also takes the majority of the quorum, and no broker is fenced. Replication,
clients and metadata have separate listeners, so that replication can be cut while clients and the
controllers still communicate::

    CONTROLLER  9093  metadata quorum, brokers to controller (with ZooKeeper: its port 2181)
    INTERNAL    9092  broker to broker: replication
    EXTERNAL    9094  clients; published on a pinned port of 127.0.0.1

A scenario may name further listeners for clients. They get the ports from 9095 on, so that one
group of clients can be cut off and another not.

Listeners may lead through the Kafka proxy. For a listener of clients, the proxy listens on the
advertised port of 127.0.0.1. For INTERNAL and CONTROLLER, it listens on the network's gateway,
which is the machine of the harness, and nodes connect to each other through it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ackproof.containers.images import DATA_DIR
from ackproof.kafka_versions import DEFAULT_KAFKA, uses_zookeeper
from ackproof.scenario.cluster import BrokerSpec, ClusterSpec
from ackproof_model.kafka_settings import PROCESS_ROLES, ZOOKEEPER_CONNECT

LISTENER_PORTS = {"INTERNAL": 9092, "CONTROLLER": 9093, "EXTERNAL": 9094}
_FIRST_FURTHER_PORT = 9095
ZOOKEEPER_PORT = 2181

DEFAULT_HEAP = "256m"

Role = Literal["broker", "controller", "zookeeper"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One node.

    `voter`: the node votes in the metadata quorum; a broker that votes is a combined node.
    `external_port`: the port of 127.0.0.1 for clients (of a ZooKeeper node: its client port), None
    for a controller. `further_ports`: the same for each further listener. `behind_ports`: where a
    proxied listener of clients is published; `further_ports` has the port of the proxy then.
    `gateway_ports`: the ports of the proxy for INTERNAL or CONTROLLER. `memory` and `cpus` limit
    the container. `disk` is the size of the volume in bytes, None for an unlimited one. `settings`
    are the node's own, in addition to those of all brokers.
    """

    node_id: int
    role: Role
    voter: bool = False
    external_port: int | None = None
    further_ports: Mapping[str, int] = field(default_factory=dict)
    behind_ports: Mapping[str, int] = field(default_factory=dict)
    gateway_ports: Mapping[str, int] = field(default_factory=dict)
    heap: str = DEFAULT_HEAP
    memory: str | None = None
    cpus: float | None = None
    rack: str | None = None
    log_dirs: int = 1
    disk: int | None = None
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The host name on the cluster's network: ``broker-1``, ``controller-100``."""
        return f"{self.role}-{self.node_id}"

    @property
    def is_combined(self) -> bool:
        return self.role == "broker" and self.voter

    @property
    def directories(self) -> tuple[str, ...]:
        """The log directories, all in one volume; metadata and identity lie in the first."""
        return (DATA_DIR, *(f"{DATA_DIR}-{number}" for number in range(2, self.log_dirs + 1)))


class MetadataMode(ABC):
    """Where a cluster keeps its metadata, and what follows for its nodes."""

    #: The role of nodes that keep only metadata, and their port inside the network.
    role: ClassVar[Role]
    port: ClassVar[int]
    #: Whether that port is published, because ackproof reads the committed state from these nodes.
    is_published: ClassVar[bool]
    #: The listeners between nodes, in addition to those of clients.
    listeners: ClassVar[tuple[str, ...]]
    #: Whether log directories are formatted before a node starts for the first time.
    formats_directories: ClassVar[bool]
    #: Whether brokers learn each change of an ISR at once. Otherwise they learn leaders at once and
    #: ISRs seconds later.
    tells_brokers_isrs: ClassVar[bool]
    #: Whether a broker answers for the committed state. Otherwise it can be read without brokers.
    needs_a_broker: ClassVar[bool]
    #: Whether a stopped broker stays registered until an operator removes it.
    keeps_stopped_brokers: ClassVar[bool]

    @abstractmethod
    def settings(self, node: NodeSpec, topology: Topology) -> Mapping[str, object]:
        """Return the settings by which a Kafka node finds the metadata."""

    @abstractmethod
    def upgrade_settings(self, version: str) -> Mapping[str, object]:
        """Return what makes a later broker use the protocol of a cluster of this version."""


@dataclass(frozen=True)
class KRaft(MetadataMode):
    """A quorum of controllers keeps the metadata in a log, which every broker fetches.

    Features, which are in that log as well, decide the brokers' protocol.
    """

    role = "controller"
    port = LISTENER_PORTS["CONTROLLER"]
    is_published = False
    listeners = ("INTERNAL", "CONTROLLER")
    formats_directories = True
    tells_brokers_isrs = True
    needs_a_broker = True
    keeps_stopped_brokers = True

    def settings(self, node: NodeSpec, topology: Topology) -> Mapping[str, object]:
        addresses = {
            voter.node_id: topology.inside(voter, "CONTROLLER") for voter in topology.controllers
        }
        if topology.dynamic_quorum:
            quorum = {"controller.quorum.bootstrap.servers": ",".join(addresses.values())}
        else:
            voters = (f"{node_id}@{address}" for node_id, address in addresses.items())
            quorum = {"controller.quorum.voters": ",".join(voters)}
        return {
            "node.id": node.node_id,
            PROCESS_ROLES: "broker,controller" if node.is_combined else node.role,
            **quorum,
            "controller.listener.names": "CONTROLLER",
        }

    def upgrade_settings(self, version: str) -> Mapping[str, object]:
        return {}


@dataclass(frozen=True)
class ZooKeeper(MetadataMode):
    """ZooKeeper keeps the metadata. One of the brokers is the controller, and tells the others."""

    role = "zookeeper"
    port = ZOOKEEPER_PORT
    is_published = True
    listeners = ("INTERNAL",)
    formats_directories = False
    tells_brokers_isrs = False
    needs_a_broker = False
    keeps_stopped_brokers = False

    def settings(self, node: NodeSpec, topology: Topology) -> Mapping[str, object]:
        servers = (f"{server.name}:{ZOOKEEPER_PORT}" for server in topology.controllers)
        return {"broker.id": node.node_id, ZOOKEEPER_CONNECT: ",".join(servers)}

    def upgrade_settings(self, version: str) -> Mapping[str, object]:
        numbers = version.split(".")
        line = numbers[: 3 if numbers[0] == "0" else 2]
        return {"inter.broker.protocol.version": ".".join(line)}


def metadata_mode(kafka: str) -> MetadataMode:
    return ZooKeeper() if uses_zookeeper(kafka) else KRaft()


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The nodes of one cluster, and the settings that all brokers share.

    `controllers` are dedicated controllers, combined brokers, or ZooKeeper nodes.
    `dynamic_quorum`: the voters are in the metadata log, not in each node's configuration
    (KIP-853). `listeners` are the further listeners for clients, `proxied` the listeners behind the
    Kafka proxy; `gateway` is the machine's address on the cluster's network.
    """

    cluster_id: str
    kafka: str = DEFAULT_KAFKA
    controllers: tuple[NodeSpec, ...]
    brokers: tuple[NodeSpec, ...]
    dynamic_quorum: bool = False
    listeners: tuple[str, ...] = ()
    proxied: tuple[str, ...] = ()
    gateway: str = ""
    settings: Mapping[str, object]

    @property
    def nodes(self) -> tuple[NodeSpec, ...]:
        """Every node; dedicated controllers and ZooKeeper nodes come first."""
        dedicated = [node for node in self.controllers if node.role != "broker"]
        return (*dedicated, *self.brokers)

    @property
    def metadata(self) -> MetadataMode:
        return metadata_mode(self.kafka)

    @property
    def bootstrap_servers(self) -> str:
        return self.bootstrap("EXTERNAL")

    def bootstrap(self, listener: str) -> str:
        return ",".join(f"127.0.0.1:{host_port(broker, listener)}" for broker in self.brokers)

    @property
    def client_listeners(self) -> tuple[str, ...]:
        return ("EXTERNAL", *self.listeners)

    def inside(self, node: NodeSpec, listener: str) -> str:
        """Return the address of this listener for other nodes."""
        if listener in node.gateway_ports:
            return f"{self.gateway}:{node.gateway_ports[listener]}"
        return f"{node.name}:{LISTENER_PORTS[listener]}"

    @property
    def ports(self) -> Mapping[str, int]:
        """The ports of listeners inside the network; with ZooKeeper, CONTROLLER is its port."""
        further = {name: _FIRST_FURTHER_PORT + at for at, name in enumerate(self.listeners)}
        return {**LISTENER_PORTS, **further, "CONTROLLER": self.metadata.port}


def published_port(node: NodeSpec, listener: str) -> int | None:
    """Return the port of 127.0.0.1 on which the engine publishes this listener of the node."""
    return node.behind_ports.get(listener, host_port(node, listener))


def host_port(node: NodeSpec, listener: str) -> int | None:
    """Return the port of 127.0.0.1 that clients use: the proxy's, where there is one."""
    return node.external_port if listener == "EXTERNAL" else node.further_ports[listener]


def arrange(
    spec: ClusterSpec,
    kafka: str,
    *,
    cluster_id: str,
    ports: Iterator[int],
    gateway: str = "",
) -> Topology:
    """Return the topology of `spec` on the next ports of 127.0.0.1 (and of `gateway`)."""
    metadata = metadata_mode(kafka)
    dedicated = tuple(
        NodeSpec(
            node_id=number,
            role=metadata.role,
            voter=True,
            external_port=next(ports) if metadata.is_published else None,
            gateway_ports={"CONTROLLER": next(ports)} if "CONTROLLER" in spec.proxied else {},
            heap=spec.heap,
        )
        for number in spec.controller_ids
        if not spec.combined
    )
    brokers = tuple(
        broker_spec(
            number,
            spec.broker(number),
            spec.listeners,
            ports,
            proxied=spec.proxied,
            voter=number in spec.controller_ids,
        )
        for number in range(1, spec.brokers + 1)
    )
    return Topology(
        cluster_id=cluster_id,
        kafka=kafka,
        controllers=dedicated or brokers[: spec.controllers],
        brokers=brokers,
        listeners=tuple(spec.listeners),
        proxied=tuple(spec.proxied),
        gateway=gateway,
        settings=spec.settings,
    )


def broker_spec(
    number: int,
    own: BrokerSpec,
    listeners: Sequence[str],
    ports: Iterator[int],
    *,
    proxied: Sequence[str] = (),
    voter: bool = False,
) -> NodeSpec:
    return NodeSpec(
        node_id=number,
        role="broker",
        voter=voter,
        external_port=next(ports),
        further_ports={name: next(ports) for name in listeners},
        behind_ports={name: next(ports) for name in proxied if name in listeners},
        gateway_ports={name: next(ports) for name in proxied if name == "INTERNAL"},
        heap=own.heap or DEFAULT_HEAP,
        memory=own.memory,
        cpus=own.cpus,
        rack=own.rack,
        log_dirs=own.log_dirs or 1,
        disk=own.disk_bytes,
        settings=own.settings,
    )
