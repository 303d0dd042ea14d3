"""The state of a cluster: its topology, its nodes, and clients that read its metadata.

Everything in this package that acts on a cluster acts on a `ClusterState`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.cluster.admin import Admin, PartitionView, TopicPartition
from ackproof.cluster.node import KafkaNode, NodeFactory
from ackproof.cluster.topology import Topology
from ackproof.cluster.zookeeper import ZooKeeperMetadata
from ackproof.containers import images
from ackproof.errors import ClusterError
from ackproof.proxy.proxy import LinkProxy

if TYPE_CHECKING:
    from docker import DockerClient


class ClusterState:
    """A running cluster's topology and nodes; both change when nodes are added or removed.

    `logs` is the folder for logs of containers that are removed before the run ends. `proxy` is the
    link proxy, None without proxied listeners.
    """

    def __init__(
        self,
        topology: Topology,
        nodes: Mapping[int, KafkaNode],
        *,
        client: DockerClient,
        run_id: str,
        factory: NodeFactory,
        logs: Path | None = None,
        proxy: LinkProxy | None = None,
    ) -> None:
        self.topology = topology
        self.nodes = dict(nodes)
        self.client = client
        self.run_id = run_id
        self.factory = factory
        self.logs = logs
        self.proxy = proxy
        self.admin = Admin(topology.bootstrap_servers, settings=self.client_settings)
        #: Start of this run, where the cluster has served another run before (`pool`). Older lines
        #: of the nodes' logs belong to that run.
        self.since: datetime | None = None
        #: Whether it outlives this process, until `ackproof clean`.
        self.left_up = False
        #: The source of committed leaders and ISRs.
        self._committed = _zookeeper_metadata(topology) or self.admin

    @cached_property
    def sidecar(self) -> str:
        """The image with nft and bash; it is built when a fault first needs it."""
        return images.ensure_sidecar(client=self.client)

    @property
    def bootstrap_servers(self) -> str:
        """`bootstrap.servers` of clients on this machine."""
        return self.topology.bootstrap_servers

    def get_bootstrap_server(self) -> str:
        """Return `bootstrap_servers`; the name is that of testcontainers' KafkaContainer."""
        return self.bootstrap_servers

    def bootstrap(self, listener: str) -> str:
        """Return `bootstrap.servers` of clients that use this listener."""
        return self.topology.bootstrap(listener)

    @property
    def client_settings(self) -> dict[str, str]:
        """Security settings of clients, in librdkafka's names; secret."""
        return self.topology.security.client_settings if self.topology.security else {}

    def broker_ids(self) -> list[int]:
        """Return the node ids of all brokers, ascending."""
        return [broker.node_id for broker in self.topology.brokers]

    def controller_ids(self) -> list[int]:
        """Return the node ids of all voters of the metadata quorum, ascending."""
        return sorted(node.node_id for node in self.topology.controllers)

    def running_brokers(self) -> list[int]:
        """Return the brokers that run and are not paused."""
        return self._running(self.broker_ids())

    def running_controllers(self) -> list[int]:
        """Return the voters that run and are not paused."""
        return self._running(self.controller_ids())

    def _running(self, ids: list[int]) -> list[int]:
        return [one for one in ids if self.nodes[one].running()]

    def require_alive(self, node_id: int) -> None:
        """Raise ClusterError with the node's last log lines if its process has ended."""
        node = self.nodes[node_id]
        status = node.exit_status()
        if status is not None:
            raise ClusterError(
                f"{node.spec.name} ended with exit status {status}; its last log lines:\n"
                f"{node.log_tail()}"
            )

    def require_all_alive(self) -> None:
        """Raise ClusterError with a node's last log lines if its process has ended."""
        for node_id in list(self.nodes):
            self.require_alive(node_id)

    def partitions(self) -> Mapping[TopicPartition, PartitionView]:
        """Return the committed state of every partition; empty while it is unknown."""
        return self._committed.partitions()

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


def _zookeeper_metadata(topology: Topology) -> ZooKeeperMetadata | None:
    if not topology.zookeeper:
        return None
    return ZooKeeperMetadata(
        ",".join(f"127.0.0.1:{node.external_port}" for node in topology.controllers)
    )
