"""The cluster of a run that ackproof boots: its `nodes`, and their interfaces for faults."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

from docker import DockerClient

from ackproof.cluster import readiness
from ackproof.cluster.admin import new_topics, partitions_of
from ackproof.cluster.group_offsets import GroupOffsets
from ackproof.cluster.hanging_transactions import HangingTransactions
from ackproof.cluster.interfaces import (
    BrokerLogSearch,
    BrokerVolumes,
    ClusterMetadata,
    NodeNetworks,
    NodeProcesses,
)
from ackproof.cluster.lifecycle import NodeOperations
from ackproof.cluster.network import create_network, reserved_ports
from ackproof.cluster.node import NodeFactory
from ackproof.cluster.node_files import bootstrap_checkpoint, new_id
from ackproof.cluster.nodes import ClusterNodes
from ackproof.cluster.security import secured
from ackproof.cluster.share_groups import ShareGroups
from ackproof.cluster.times import RECOVERY_S
from ackproof.cluster.topic_operations import TopicOperations
from ackproof.cluster.topology import ZooKeeper, arrange
from ackproof.containers import fake_clock
from ackproof.containers.engine import remove_run
from ackproof.errors import ClusterError
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.machine import Say, silent
from ackproof.observation import controllers_log, zookeeper_log
from ackproof.observation.clocks import take_clocks
from ackproof.observation.metadata_log import MetadataLog
from ackproof.observation.replica_logs import ReplicaLog, take_replica_logs
from ackproof.proxy.follower_fetches import EarlyHighWatermark
from ackproof.proxy.listed_ends import ListedEnd
from ackproof.proxy.proxy import LinkProxy
from ackproof.runs.directory import Clock
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.topics import TopicSpec
from ackproof.waiting import wait_for
from ackproof_faults.interfaces.cluster import Cluster, Operations, TopicPartition

_ANSWER_S = 60.0


class ClusterOperations(TopicOperations, NodeOperations, GroupOffsets, Operations):
    def __init__(self, cluster: ClusterNodes) -> None:
        TopicOperations.__init__(self, cluster)
        NodeOperations.__init__(self, cluster)
        GroupOffsets.__init__(self, cluster)


class KafkaCluster(ClusterNodes):
    """A running cluster. `interfaces` are for faults."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._operations = ClusterOperations(self)
        self.interfaces = _interfaces(self, self._operations)

    @property
    def hanging_transactions(self) -> HangingTransactions:
        return HangingTransactions(self.admin, self.run_kafka_tool, self.topology.kafka)

    @property
    def share_groups(self) -> ShareGroups:
        return ShareGroups(self.run_kafka_tool)

    def create_topics(self, topics: Mapping[str, TopicSpec]) -> None:
        """Create the topics and wait until each of their partitions is at full ISR.

        Reads the topics' settings, which faults may need when no broker answers any more.
        """
        for topic in new_topics(topics):
            self.admin.create_topic(topic)
        self.await_full_isr(partitions_of(topics))
        for name in topics:
            self._operations.read_settings(name)

    def await_full_isr(
        self, partitions: Sequence[TopicPartition], *, within_s: float = RECOVERY_S
    ) -> None:
        """Wait until every broker reports a leader and a full ISR for each of these partitions.

        Raises ClusterError, early if a node has ended.
        """
        readiness.await_full_isr(self, partitions, within_s=within_s)

    def clocks(self, now: Callable[[], datetime]) -> list[Clock]:
        return take_clocks(self.client, list(self.nodes.values()), now)

    def early_high_watermarks(self) -> list[EarlyHighWatermark]:
        return self.proxy.early_high_watermarks() if self.proxy else []

    def listed_ends(self) -> list[ListedEnd]:
        return self.proxy.listed_ends() if self.proxy else []

    def take_metadata_log(self, run_dir: Path) -> MetadataLog:
        """Store the controllers' metadata log, or ZooKeeper's; return its states in this run.

        Raises ClusterError if no controller has a readable log, ValueError or KeyError if it cannot
        be parsed.
        """
        voters = [self.nodes[node_id] for node_id in self.controller_ids()]
        running = [node for node in voters if node.exit_status() is None]
        if not running:
            names = ", ".join(node.name for node in voters)
            raise ClusterError(f"the metadata log cannot be read: none of {names} is running")
        if isinstance(self.topology.metadata, ZooKeeper):
            log = zookeeper_log.take(voters, run_dir)
        else:
            log = controllers_log.take(running, run_dir)
        return log if self.since is None else log.since(self.since)

    def take_node_logs(self, folder: Path) -> None:
        """Append the log of every node, whether it runs or not, to <node>.log in the folder."""
        for node in self.nodes.values():
            node.save_log(folder, since=self.since)

    def take_replica_logs(self, topics: Sequence[str], run_dir: Path) -> list[ReplicaLog]:
        """Store the batch headers of every replica. Clients must have ended.

        Raises ClusterError if the brokers do not report the replicas of partitions.
        """
        views = wait_for(
            self.partitions,
            bool,
            within_s=_ANSWER_S,
            failure=lambda _: ClusterError(f"no broker has answered for {_ANSWER_S:g} s"),
        )
        replicas = {
            (topic, number): view.replicas
            for (topic, number), view in views.items()
            if topic in topics
        }
        brokers = {broker: self.nodes[broker] for broker in self.broker_ids()}
        return take_replica_logs(brokers, replicas, run_dir)


def _interfaces(cluster: ClusterNodes, operations: Operations) -> Cluster:
    metadata, volumes = ClusterMetadata(cluster), BrokerVolumes(cluster)
    processes = NodeProcesses(cluster.nodes)
    interfaces = Cluster(
        metadata=metadata,
        controllers=metadata,
        processes=processes,
        freezer=processes,
        memory=processes,
        network=NodeNetworks(
            nodes=cluster.nodes,
            ports=cluster.topology.ports,
            sidecar=lambda: cluster.sidecar,
            run_id=cluster.run_id,
        ),
        volumes=volumes,
        logs=BrokerLogSearch(cluster.nodes),
        operations=operations,
    )
    if cluster.proxy is not None:
        interfaces.offer("proxy", cluster.proxy)
    if cluster.factory.clock:
        interfaces.offer("clocks", volumes)
    return interfaces


@contextlib.contextmanager
def booted(
    spec: ClusterSpec,
    *,
    client: DockerClient,
    image: str,
    run_id: str,
    kafka: str = DEFAULT_KAFKA,
    ended: Say = silent,
) -> Iterator[KafkaCluster]:
    """Boot a cluster, yield it when every broker is registered, and remove it at the end.

    A cluster that is `left_up` is not removed. `image` runs the version `kafka`. `ended` is called
    with the name of each phase at its end. Raises ClusterError if a node does not boot.
    """
    cluster: KafkaCluster | None = None

    def remove() -> None:
        if cluster is None or not cluster.left_up:
            remove_run(client, run_id)

    with contextlib.ExitStack() as cleanup:
        clock = fake_clock.library(client) if spec.clock == "adjustable" else b""
        ports = cleanup.enter_context(reserved_ports())
        # Objects are removed by label, because an interrupted creation does not return an id.
        cleanup.callback(remove)
        security = secured(spec.security)
        network = create_network(client, run_id)
        topology = arrange(
            spec,
            kafka,
            cluster_id=new_id(),
            ports=ports,
            gateway=network.gateway,
        )
        checkpoint: Mapping[str, bytes] = {}
        if topology.metadata.formats_directories:
            scram = security.scram if security else ""
            checkpoint = bootstrap_checkpoint(
                client, image, spec.features, run_id=run_id, scram=scram
            )
        ended("network and ports")
        factory = NodeFactory(
            image=image,
            run_id=run_id,
            checkpoint=checkpoint,
            network=network,
            ports=ports,
            security=security,
            clock=clock,
        )
        nodes = {node.node_id: factory.create(node, topology) for node in topology.nodes}
        proxy = LinkProxy() if topology.proxied else None
        if proxy is not None:
            cleanup.enter_context(proxy.running())
        cluster = KafkaCluster(
            topology,
            nodes,
            client=client,
            factory=factory,
            proxy=proxy,
        )
        for node in nodes.values():
            cluster.add_proxy_routes(node)
        with ThreadPoolExecutor(max_workers=len(nodes)) as pool:
            for boot in [pool.submit(node.boot) for node in nodes.values()]:
                boot.result()
        ended("containers started")
        readiness.await_brokers(cluster)
        ended("brokers registered")
        yield cluster
