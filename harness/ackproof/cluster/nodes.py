"""The nodes of a booted cluster, on which operations and waits act.

`booted` adds what a run and its faults use. `attached` has no nodes of this kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from docker import DockerClient

from ackproof.cluster.admin import Admin, PartitionView
from ackproof.cluster.node import KafkaNode, NodeFactory
from ackproof.cluster.topology import Topology, ZooKeeper
from ackproof.cluster.zookeeper import ZooKeeperMetadata
from ackproof.containers import commands, images
from ackproof.containers.engine import mark_kept
from ackproof.errors import ClusterError
from ackproof.observation.controllers_log import ControllersLog
from ackproof.proxy.proxy import LinkProxy, Route
from ackproof_faults.interfaces.cluster import TopicPartition


class ClusterNodes:
    """The topology and the nodes of a cluster, and clients that read its metadata.

    Topology and nodes change when nodes are added or removed.

    `proxy` is the link proxy, None without proxied listeners.
    """

    def __init__(
        self,
        topology: Topology,
        nodes: Mapping[int, KafkaNode],
        *,
        client: DockerClient,
        factory: NodeFactory,
        proxy: LinkProxy | None = None,
    ) -> None:
        self.topology = topology
        self.nodes = dict(nodes)
        self.client = client
        self.factory = factory
        #: The folder for logs of containers that are removed before the run ends.
        self.logs: Path | None = None
        self.proxy = proxy
        self.admin = Admin(topology.bootstrap_servers, settings=self.client_settings)
        #: Start of this run, if the cluster is reused (`pool`): older log lines belong to the
        #: previous run.
        self.since: datetime | None = None
        #: See `leave_up`.
        self.left_up = False
        #: The source of committed leaders and ISRs.
        self._committed: Admin | ZooKeeperMetadata = self.admin
        if isinstance(topology.metadata, ZooKeeper):
            servers = (f"127.0.0.1:{node.external_port}" for node in topology.controllers)
            self._committed = ZooKeeperMetadata(",".join(servers))

    def leave_up(self) -> None:
        """Let the cluster stay up after this process, until `ackproof clean` names it."""
        mark_kept(self.client, self.run_id, datetime.now(UTC))
        self.left_up = True

    @cached_property
    def controllers_log(self) -> ControllersLog:
        """The metadata log of the running controllers; in ZooKeeper mode it is empty."""
        return ControllersLog(self._running_voters)

    def _running_voters(self) -> list[KafkaNode]:
        if isinstance(self.topology.metadata, ZooKeeper):
            return []
        return [self.nodes[node] for node in self.running_controllers()]

    @property
    def run_id(self) -> str:
        return self.factory.run_id

    @cached_property
    def sidecar(self) -> str:
        """The image with nft and bash; it is built when a fault first needs it."""
        return images.ensure_sidecar(client=self.client)

    @property
    def bootstrap_servers(self) -> str:
        return self.topology.bootstrap_servers

    def get_bootstrap_server(self) -> str:
        """Return `bootstrap_servers`; the name is that of testcontainers' KafkaContainer."""
        return self.bootstrap_servers

    def bootstrap(self, listener: str) -> str:
        return self.topology.bootstrap(listener)

    @property
    def client_settings(self) -> dict[str, str]:
        security = self.factory.security
        return security.client_settings if security else {}

    def broker_ids(self) -> list[int]:
        return [broker.node_id for broker in self.topology.brokers]

    def controller_ids(self) -> list[int]:
        return sorted(node.node_id for node in self.topology.controllers)

    def running_brokers(self) -> list[int]:
        """Return the brokers that run and are not paused."""
        return self._running(self.broker_ids())

    def running_controllers(self) -> list[int]:
        return self._running(self.controller_ids())

    def _running(self, ids: list[int]) -> list[int]:
        return [node_id for node_id in ids if self.nodes[node_id].running()]

    def running_broker(self) -> KafkaNode:
        """Return a broker that runs and is not paused; raise ClusterError if there is none."""
        for broker in self.running_brokers():
            return self.nodes[broker]
        raise ClusterError("no broker is running, so Kafka's tools have no bootstrap server")

    def internal_address(self, node: KafkaNode) -> str:
        return f"{node.name}:{self.topology.ports['INTERNAL']}"

    def run_kafka_tool(
        self, classes: tuple[str, ...], *arguments: str, at: KafkaNode | None = None
    ) -> str:
        """Run one of Kafka's tools at a running broker, its `--bootstrap-server`.

        Returns its output. Raises ClusterError with its last lines if it fails.
        """
        broker = at or self.running_broker()
        bootstrap = ("--bootstrap-server", self.internal_address(broker))
        return commands.run_kafka_tool(broker, classes, *bootstrap, *arguments)

    def add_proxy_routes(self, node: KafkaNode) -> None:
        if self.proxy is None:
            return
        spec, gateway = node.spec, self.topology.gateway
        to_host = {
            ("127.0.0.1", spec.further_ports[listener]): ("127.0.0.1", port)
            for listener, port in spec.behind_ports.items()
        }
        to_node = {
            (gateway, port): (node.address, self.topology.ports[listener])
            for listener, port in spec.gateway_ports.items()
        }
        for listen, forward in (to_host | to_node).items():
            self.proxy.add_route(Route(broker=spec.node_id, listen=listen, forward=forward))

    def require_alive(self, node_id: int) -> None:
        """Raise ClusterError with the node's last log lines if its process has ended."""
        node = self.nodes[node_id]
        status = node.exit_status()
        if status is not None:
            raise ClusterError(
                f"{node.name} ended with exit status {status}; its last log lines:\n"
                f"{node.log_tail()}"
            )

    def require_all_alive(self) -> None:
        for node_id in list(self.nodes):
            self.require_alive(node_id)

    def partitions(self) -> Mapping[TopicPartition, PartitionView]:
        """Return the state of every partition; empty while it is unknown.

        It is committed. In KRaft it is that of a broker, which may be late (`decided` is not).
        """
        return self._committed.partitions()

    def decided(self) -> Mapping[TopicPartition, PartitionView]:
        """Return every partition as the controllers' log or ZooKeeper has it.

        Unlike the metadata of any broker it is up to date. Empty while it cannot be read.
        """
        if isinstance(self.topology.metadata, ZooKeeper):
            return self.partitions()
        return {
            partition: PartitionView(
                leader=None if state.leader < 0 else state.leader,
                replicas=state.replicas,
                isr=state.isr,
            )
            for partition, state in self.controllers_log.partitions().items()
        }

    def partitions_known_to(self, broker: int) -> Mapping[TopicPartition, PartitionView]:
        """Return every partition in this broker's metadata; empty if it does not answer.

        The metadata of a broker may lag behind the committed state.
        """
        return self.admin_of(broker).partitions()

    def brokers_known_to(self, broker: int) -> frozenset[int]:
        """Return the unfenced brokers in this broker's metadata; empty if it does not answer."""
        return self.admin_of(broker).brokers()

    def admin_of(self, broker: int) -> Admin:
        """Return a new client that knows only this broker, so that its first request goes there."""
        port = self.nodes[broker].spec.external_port
        return Admin(f"127.0.0.1:{port}", settings=self.client_settings, timeout_s=1)
