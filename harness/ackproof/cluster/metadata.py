"""The metadata of a cluster, as faults read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ackproof.cluster import quorum, readiness
from ackproof.cluster.admin import Admin, PartitionView, TopicPartition
from ackproof.cluster.controllers_log import ControllersLog
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
        return self.leaders([(topic, partition)])[topic, partition]

    def leaderless(self, topic: str, partition: int) -> bool:
        view = self._partitions().get((topic, partition))
        return view is not None and view.leader is None

    def leaders(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        views = self._partitions()
        return {one: views[one].leader if one in views else None for one in partitions}

    def replicas(self, topic: str, partition: int) -> Sequence[int]:
        view = self._partitions().get((topic, partition))
        return view.replicas if view else ()

    def isr(self, topic: str, partition: int) -> Sequence[int] | None:
        view = self._partitions().get((topic, partition))
        return view.isr if view else None

    def elr(self, topic: str, partition: int) -> Sequence[int] | None:
        """Return None: clients are not told of eligible leader replicas."""
        return None

    def last_known_leader(self, topic: str, partition: int) -> int | None:
        """Return None: clients are not told of the last known leader."""
        return None

    def log_end(self, topic: str, partition: int) -> tuple[int, int] | None:
        return self._admin.log_end(topic, partition)

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        return self._admin.committed(group, topic, partition)


@raises_fault_errors
class ClusterMetadata(PartitionMetadata, Metadata):
    """The committed metadata of a cluster that ackproof started.

    While no broker answers, and for what brokers do not tell, it is read from the controllers' log.
    """

    def __init__(self, cluster: ClusterState) -> None:
        super().__init__(self._views, cluster.admin)
        self._cluster = cluster
        self._log = ControllersLog(cluster)

    def elr(self, topic: str, partition: int) -> Sequence[int] | None:
        state = self._log.partitions().get((topic, partition))
        return state.elr if state else None

    def last_known_leader(self, topic: str, partition: int) -> int | None:
        state = self._log.partitions().get((topic, partition))
        return state.last_known_elr[0] if state and state.last_known_elr else None

    def _views(self) -> Mapping[TopicPartition, PartitionView]:
        # A request to brokers that do not run ends by its timeout only, once for each question.
        asked = self._cluster.topology.zookeeper or self._cluster.running_brokers()
        return (self._cluster.partitions() if asked else {}) or {
            where: PartitionView(
                leader=None if state.leader < 0 else state.leader,
                replicas=state.replicas,
                isr=state.isr,
            )
            for where, state in self._log.partitions().items()
        }

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
