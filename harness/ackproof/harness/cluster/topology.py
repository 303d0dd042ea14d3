"""Who is in the cluster: node ids, names, listeners, and each node's server.properties.

The controller is dedicated: in combined mode a fault on two nodes takes the quorum with it and
nothing is fenced. Three listeners are kept apart, so that replication can be cut while clients
and the controller still talk::

    CONTROLLER  9093  metadata quorum, brokers to controller
    INTERNAL    9092  broker to broker: replication
    EXTERNAL    9094  clients; published on a pinned port of 127.0.0.1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

LISTENER_PORTS = {"INTERNAL": 9092, "CONTROLLER": 9093, "EXTERNAL": 9094}
DATA_DIR = "/var/lib/ackproof/data"
CONTROLLER_ID = 100

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
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One node. `external_port` is its pinned port on 127.0.0.1; None for a controller."""

    node_id: int
    role: Literal["controller", "broker"]
    external_port: int | None = None

    @property
    def name(self) -> str:
        """The node's host name on the cluster's network: ``broker-1``, ``controller-100``."""
        return f"{self.role}-{self.node_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The nodes of one cluster, and the settings that all brokers share."""

    cluster_id: str
    controller: NodeSpec
    brokers: tuple[NodeSpec, ...]
    settings: Mapping[str, object]

    @property
    def nodes(self) -> tuple[NodeSpec, ...]:
        """Every node, the controller first."""
        return (self.controller, *self.brokers)

    @property
    def bootstrap_servers(self) -> str:
        """Where clients begin: every broker's EXTERNAL listener."""
        return ",".join(f"127.0.0.1:{broker.external_port}" for broker in self.brokers)

    def server_properties(self, node: NodeSpec) -> str:
        """Return the text of the node's server.properties."""
        voter = f"{self.controller.node_id}@{self.controller.name}:{LISTENER_PORTS['CONTROLLER']}"
        properties: dict[str, object] = {
            **_DEFAULTS,
            **{key: min(3, len(self.brokers)) for key in _INTERNAL_TOPICS},
            "transaction.state.log.min.isr": min(2, len(self.brokers)),
            "share.coordinator.state.topic.min.isr": min(2, len(self.brokers)),
            **self.settings,
            "node.id": node.node_id,
            "process.roles": node.role,
            "controller.quorum.voters": voter,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(
                f"{listener}:PLAINTEXT" for listener in LISTENER_PORTS
            ),
            "inter.broker.listener.name": "INTERNAL",
            "log.dirs": DATA_DIR,
        }
        if node.role == "controller":
            del properties["inter.broker.listener.name"]
            properties["listeners"] = f"CONTROLLER://:{LISTENER_PORTS['CONTROLLER']}"
        else:
            internal, external = LISTENER_PORTS["INTERNAL"], LISTENER_PORTS["EXTERNAL"]
            properties["listeners"] = f"INTERNAL://:{internal},EXTERNAL://:{external}"
            properties["advertised.listeners"] = (
                f"INTERNAL://{node.name}:{internal},EXTERNAL://127.0.0.1:{node.external_port}"
            )
        return "".join(f"{key}={kafka_text(value)}\n" for key, value in sorted(properties.items()))


def kafka_text(value: object) -> str:
    """Return a setting's value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
