"""A cluster of brokers in containers that ackproof started; `boot.booted` makes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ackproof.cluster import readiness
from ackproof.cluster.admin import TopicPartition
from ackproof.cluster.broker_clocks import BrokerClocks
from ackproof.cluster.broker_log_search import BrokerLogSearch
from ackproof.cluster.metadata import ClusterMetadata, QuorumControllers
from ackproof.cluster.network_namespaces import NodeNetworks
from ackproof.cluster.operations import ClusterOperations
from ackproof.cluster.processes import NodeProcesses
from ackproof.cluster.state import ClusterState
from ackproof.cluster.topics import new_topics, partitions_of
from ackproof.cluster.volumes import BrokerVolumes
from ackproof.scenario.model import TopicSpec
from ackproof_faults.interfaces.cluster import Cluster


class KafkaCluster(ClusterState):
    """A running cluster. `interfaces` are what faults use of it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._operations = ClusterOperations(self)
        self.interfaces = _interfaces(self, self._operations)

    def create_topics(self, topics: Mapping[str, TopicSpec]) -> None:
        """Create the topics and wait until each of their partitions is at full ISR.

        Faults may have to know their settings when no broker answers any more.
        """
        for topic in new_topics(topics):
            self.admin.create_topic(topic)
        self.await_full_isr(partitions_of(topics))
        for name in topics:
            self._operations.hear_settings(name)

    def await_full_isr(
        self,
        partitions: Sequence[TopicPartition],
        *,
        within_s: float = readiness.RECOVERY_S,
    ) -> None:
        """Wait until every broker reports a leader and a full ISR for each of these partitions.

        Raises ClusterError, early if a node has ended.
        """
        readiness.await_full_isr(self, partitions, within_s=within_s)


def _interfaces(cluster: ClusterState, operations: ClusterOperations) -> Cluster:
    processes = NodeProcesses(cluster.nodes)
    offered = Cluster(
        metadata=ClusterMetadata(cluster),
        controllers=QuorumControllers(cluster),
        processes=processes,
        freezer=processes,
        memory=processes,
        network=NodeNetworks(cluster),
        volumes=BrokerVolumes(cluster),
        logs=BrokerLogSearch(cluster.nodes),
        operations=operations,
    )
    if cluster.proxy is not None:
        offered.offer("proxy", cluster.proxy)
    if cluster.factory.clock:
        offered.offer("clocks", BrokerClocks(cluster))
    return offered
