"""Who is in the cluster: node ids, names, listeners, and each node's server.properties.

Who decides over metadata is apart from the brokers unless a scenario combines them: in combined
mode a fault on two nodes takes the quorum with it and nothing is fenced. Three listeners are kept
apart, so that replication can be cut while clients and the controller still talk::

    CONTROLLER  9093  metadata quorum, brokers to controller (2181: ZooKeeper, in its place)
    INTERNAL    9092  broker to broker: replication
    EXTERNAL    9094  clients; published on a pinned port of 127.0.0.1

A scenario may name further listeners for clients, from 9095 on: one group of clients can then be
cut off and another not.

Listeners may lead through the link proxy. Of those for clients, the proxy has the advertised port
of 127.0.0.1. Of INTERNAL and CONTROLLER, it has a port of the network's gateway, which is the
machine that the harness runs on: nodes then reach each other by way of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ackproof.cluster import zookeeper
from ackproof.kafka_versions import DEFAULT_KAFKA, uses_zookeeper
from ackproof.scenario.cluster import CONTROLLER_ID

if TYPE_CHECKING:
    from ackproof.cluster.security import Security
    from ackproof.scenario.cluster import BrokerSpec, ClusterSpec

LISTENER_PORTS = {"INTERNAL": 9092, "CONTROLLER": 9093, "EXTERNAL": 9094}
_FIRST_FURTHER_PORT = 9095
VOLUME_DIR = "/var/lib/ackproof"
DATA_DIR = f"{VOLUME_DIR}/data"
CONFIG_DIR = "/etc/ackproof"

#: Internal topics live on as many replicas as there are, up to three, so that they are never the
#: weak point of a run.
_INTERNAL_TOPICS = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)

_DEFAULTS: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    # A first group should not wait three seconds for more members.
    "group.initial.rebalance.delay.ms": "0",
    # One partition's worth of threads is plenty for a test, and four JVMs share the machine.
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": "4194304",
    # Nobody asks a broker of a run over JMX, and registering a thousand beans delays its start.
    "metric.reporters": "",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    # Brokers boot beside ZooKeeper; by default they would wait no longer than a session lasts.
    "zookeeper.connection.timeout.ms": "60000",
}

DEFAULT_HEAP = "256m"

#: Only a loss may remove a record.
_KEEP_EVERYTHING = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}

Role = Literal["broker", "controller", "zookeeper"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One node, and what it has for itself.

    `voter`: it votes in the metadata quorum; a broker that does is a combined node.
    `external_port`: its pinned port on 127.0.0.1, a ZooKeeper node's client port; None for a
    controller. `further_ports`: the same for each further listener. `behind_ports`: where those are
    published that clients reach through the link proxy, which has the other port. `gateway_ports`:
    where the proxy stands in front of INTERNAL or CONTROLLER. `memory` and
    `cpus` limit its container; `disk` is the size of its disk in bytes, None for the engine's own.
    `settings` are its own, beside those that all brokers share.
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
        """The node's host name on the cluster's network: ``broker-1``, ``controller-100``."""
        return f"{self.role}-{self.node_id}"

    @property
    def directories(self) -> tuple[str, ...]:
        """Its log directories, all in its volume; metadata and identity lie in the first."""
        return (DATA_DIR, *(f"{DATA_DIR}-{number}" for number in range(2, self.log_dirs + 1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The nodes of one cluster, and the settings that all brokers share.

    `controllers` decide over metadata: controllers of their own, brokers that are controllers too,
    or ZooKeeper nodes. `dynamic_quorum`: who votes stands in the metadata log, not in each node's
    configuration (KIP-853). `listeners` names the further listeners for clients, `proxied` what
    leads through the link proxy; `gateway` is the machine's address on the cluster's network.
    """

    cluster_id: str
    kafka: str = DEFAULT_KAFKA
    controllers: tuple[NodeSpec, ...]
    brokers: tuple[NodeSpec, ...]
    dynamic_quorum: bool = False
    listeners: tuple[str, ...] = ()
    proxied: tuple[str, ...] = ()
    gateway: str = ""
    security: Security | None = None
    settings: Mapping[str, object]

    @property
    def nodes(self) -> tuple[NodeSpec, ...]:
        """Every node, those that decide over metadata first."""
        apart = [node for node in self.controllers if node.role != "broker"]
        return (*apart, *self.brokers)

    @property
    def zookeeper(self) -> bool:
        """Whether metadata is kept in ZooKeeper."""
        return uses_zookeeper(self.kafka)

    @property
    def bootstrap_servers(self) -> str:
        """Where clients begin: every broker's EXTERNAL listener."""
        return self.bootstrap("EXTERNAL")

    def bootstrap(self, listener: str) -> str:
        """Return where clients of this listener begin: it at every broker."""
        return ",".join(f"127.0.0.1:{host_port(broker, listener)}" for broker in self.brokers)

    def port(self, listener: str) -> int:
        """Return a listener's port inside the network; CONTROLLER is ZooKeeper's where it is."""
        if listener == "CONTROLLER" and self.zookeeper:
            return zookeeper.CLIENT_PORT
        if listener in self.listeners:
            return _FIRST_FURTHER_PORT + self.listeners.index(listener)
        return LISTENER_PORTS[listener]

    def server_properties(self, node: NodeSpec) -> str:
        """Return the text of the node's configuration file."""
        if node.role == "zookeeper":
            return zookeeper.properties(DATA_DIR, self.controllers)
        properties: dict[str, object] = {
            **_DEFAULTS,
            **{key: min(3, len(self.brokers)) for key in _INTERNAL_TOPICS},
            "transaction.state.log.min.isr": min(2, len(self.brokers)),
            "share.coordinator.state.topic.min.isr": min(2, len(self.brokers)),
            **self.settings,
            **node.settings,
            **self._listeners(node),
            **self._security(node),
            **(self._zookeeper(node) if self.zookeeper else self._kraft(node)),
            "log.dirs": ",".join(node.directories),
        }
        if node.rack is not None:
            properties["broker.rack"] = node.rack
        return properties_text(properties)

    def _listeners(self, node: NodeSpec) -> Mapping[str, str]:
        names = [*LISTENER_PORTS, *self.listeners]
        if self.zookeeper:
            names.remove("CONTROLLER")
        own = ("EXTERNAL", *self.listeners) if self.security else ()
        protocol = self.security.spec.protocol if self.security else "PLAINTEXT"
        protocols = {name: protocol if name in own else "PLAINTEXT" for name in names}
        found = {"listener.security.protocol.map": ",".join(map(":".join, protocols.items()))}
        if node.role == "controller":
            return {**found, "listeners": f"CONTROLLER://:{self.port('CONTROLLER')}"}
        bound = [name for name in names if name != "CONTROLLER" or node.voter]
        advertised = {
            "INTERNAL": self._inside(node, "INTERNAL"),
            **{
                name: f"127.0.0.1:{host_port(node, name)}" for name in ("EXTERNAL", *self.listeners)
            },
        }
        return {
            **found,
            "inter.broker.listener.name": "INTERNAL",
            "listeners": ",".join(f"{name}://:{self.port(name)}" for name in bound),
            "advertised.listeners": ",".join(f"{name}://{at}" for name, at in advertised.items()),
        }

    def _security(self, node: NodeSpec) -> Mapping[str, str]:
        if self.security is None or node.role != "broker":
            return {}
        return self.security.broker_settings(("EXTERNAL", *self.listeners), folder=CONFIG_DIR)

    def _kraft(self, node: NodeSpec) -> Mapping[str, object]:
        combined = node.role == "broker" and node.voter
        return {
            "node.id": node.node_id,
            "process.roles": "broker,controller" if combined else node.role,
            **self._quorum(),
            "controller.listener.names": "CONTROLLER",
        }

    def _quorum(self) -> Mapping[str, str]:
        places = [(one, self._inside(one, "CONTROLLER")) for one in self.controllers]
        if self.dynamic_quorum:
            return {"controller.quorum.bootstrap.servers": ",".join(place for _, place in places)}
        voters = ",".join(f"{one.node_id}@{place}" for one, place in places)
        return {"controller.quorum.voters": voters}

    def _inside(self, node: NodeSpec, listener: str) -> str:
        """Return where other nodes reach this listener of the node."""
        if listener in node.gateway_ports:
            return f"{self.gateway}:{node.gateway_ports[listener]}"
        return f"{node.name}:{LISTENER_PORTS[listener]}"

    def _zookeeper(self, node: NodeSpec) -> Mapping[str, object]:
        return {
            "broker.id": node.node_id,
            "zookeeper.connect": ",".join(
                f"{one.name}:{zookeeper.CLIENT_PORT}" for one in self.controllers
            ),
        }


def published_port(node: NodeSpec, listener: str) -> int | None:
    """Return the port of 127.0.0.1 on which this listener of the node is published."""
    return node.behind_ports.get(listener, host_port(node, listener))


def host_port(node: NodeSpec, listener: str) -> int | None:
    """Return the port of 127.0.0.1 on which clients reach this listener of the node."""
    return node.external_port if listener == "EXTERNAL" else node.further_ports[listener]


def ports_needed(spec: ClusterSpec, kafka: str) -> int:
    """Return how many ports of 127.0.0.1 the cluster takes."""
    own = spec.controllers if uses_zookeeper(kafka) or "CONTROLLER" in spec.proxied else 0
    return own + spec.brokers * ports_of_broker(spec.listeners, spec.proxied)


def ports_of_broker(listeners: Sequence[str], proxied: Sequence[str]) -> int:
    """Return how many ports a broker takes, those of the link proxy in front of it, too."""
    return 1 + len(listeners) + sum(name != "CONTROLLER" for name in proxied)


def arrange(
    spec: ClusterSpec,
    kafka: str,
    *,
    cluster_id: str,
    ports: Sequence[int],
    security: Security | None = None,
    gateway: str = "",
) -> Topology:
    """Return the cluster that `spec` describes, on these ports of 127.0.0.1 (and of `gateway`)."""
    left = iter(ports)
    in_zookeeper = uses_zookeeper(kafka)
    voters = range(1, spec.controllers + 1) if spec.combined else range(0)
    apart = tuple(
        NodeSpec(
            node_id=CONTROLLER_ID + index,
            role="zookeeper" if in_zookeeper else "controller",
            voter=True,
            external_port=next(left) if in_zookeeper else None,
            gateway_ports={"CONTROLLER": next(left)} if "CONTROLLER" in spec.proxied else {},
            heap=spec.heap,
        )
        for index in range(0 if spec.combined else spec.controllers)
    )
    brokers = tuple(
        broker(
            number,
            spec.broker(number),
            spec.listeners,
            left,
            proxied=spec.proxied,
            voter=number in voters,
        )
        for number in range(1, spec.brokers + 1)
    )
    return Topology(
        cluster_id=cluster_id,
        kafka=kafka,
        controllers=apart or brokers[: spec.controllers],
        brokers=brokers,
        listeners=tuple(spec.listeners),
        proxied=tuple(spec.proxied),
        gateway=gateway,
        security=security,
        settings=spec.settings,
    )


def broker(
    number: int,
    own: BrokerSpec,
    listeners: Sequence[str],
    ports: Iterator[int],
    *,
    proxied: Sequence[str] = (),
    voter: bool = False,
) -> NodeSpec:
    """Return the broker `number` on the next of these ports."""
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


def properties_text(properties: Mapping[str, object]) -> str:
    """Return settings as a Java properties file."""
    return "".join(f"{key}={kafka_text(value)}\n" for key, value in sorted(properties.items()))


def topic_settings(given: Mapping[str, object]) -> dict[str, str]:
    """Return a topic's settings as Kafka writes them; what is not given keeps every record."""
    return {**_KEEP_EVERYTHING, **{key: kafka_text(value) for key, value in given.items()}}


def kafka_text(value: object) -> str:
    """Return a setting's value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
