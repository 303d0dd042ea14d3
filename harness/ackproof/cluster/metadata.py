"""The metadata of a cluster, as faults read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ackproof.cluster import quorum, readiness
from ackproof.cluster.admin import Admin, PartitionView, TopicPartition
from ackproof.cluster.fault_errors import raises_fault_errors
from ackproof.cluster.state import ClusterState
from ackproof_faults.interfaces.metadata import Controllers, Metadata

PartitionSource = Callable[[], Mapping[TopicPartition, PartitionView]]


@raises_fault_errors
class PartitionMetadata:
    """Leader, replicas, ISR and offsets of partitions; `partitions` returns the current state."""

    def __init__(self, partitions: PartitionSource, admin: Admin) -> None:
        self._partitions = partitions
        self._admin = admin

    def leader(self, topic: str, partition: int) -> int | None:
        view = self._partitions().get((topic, partition))
        return view.leader if view else None

    def replicas(self, topic: str, partition: int) -> Sequence[int]:
        view = self._partitions().get((topic, partition))
        return view.replicas if view else ()

    def isr(self, topic: str, partition: int) -> Sequence[int] | None:
        view = self._partitions().get((topic, partition))
        return view.isr if view else None

    def log_end(self, topic: str, partition: int) -> tuple[int, int] | None:
        return self._admin.log_end(topic, partition)

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        return self._admin.committed(group, topic, partition)


@raises_fault_errors
class ClusterMetadata(PartitionMetadata, Metadata):
    """The committed metadata of a cluster that ackproof started."""

    def __init__(self, cluster: ClusterState) -> None:
        super().__init__(cluster.partitions, cluster.admin)
        self._cluster = cluster

    def broker_ids(self) -> Sequence[int]:
        return self._cluster.broker_ids()

    def answers(self, broker: int) -> bool:
        return bool(self._cluster.brokers_known_to(broker))

    def in_sync(self, node: int) -> bool:
        return readiness.in_sync(self._cluster, node)

    def await_in_sync(self, node: int, *, within_s: float) -> None:
        readiness.await_in_sync(self._cluster, node, within_s=within_s)


@raises_fault_errors
class QuorumControllers(Controllers):
    """The voters of the metadata quorum, or the ZooKeeper nodes."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster

    def ids(self) -> Sequence[int]:
        return self._cluster.controller_ids()

    def active(self) -> int | None:
        return quorum.leader(self._cluster)
