"""Running clusters of runs and of applications' ledgers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

from ackproof.cluster.admin import Admin, PartitionView, below_full_isr
from ackproof.cluster.hanging_transactions import HangingTransactions
from ackproof.errors import ClusterError
from ackproof.observation.metadata_log import MetadataLog
from ackproof.observation.replica_logs import ReplicaLog
from ackproof.runs.directory import Clock
from ackproof.scenario.topics import TopicSpec
from ackproof.waiting import wait_for
from ackproof_faults.interfaces.cluster import Cluster, TopicPartition

#: How long partitions may take until their ISR is full.
RECOVERY_S = 90.0


class RunningCluster:
    """A cluster that is known by its bootstrap servers; `settings` are librdkafka's."""

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, str]) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.client_settings = dict(settings)
        self.admin = Admin(bootstrap_servers, settings=settings)

    def await_full_isr(
        self, partitions: Sequence[TopicPartition], *, within_s: float = RECOVERY_S
    ) -> None:
        def failure(views: Mapping[TopicPartition, PartitionView]) -> ClusterError:
            late = "; ".join(below_full_isr(views, partitions)[:8])
            return ClusterError(f"not at full ISR after {within_s:g} s: {late}")

        wait_for(
            self.admin.partitions,
            lambda views: not below_full_isr(views, partitions),
            within_s=within_s,
            failure=failure,
        )


class RunCluster(Protocol):
    """The cluster of a run: `booted.KafkaCluster` or `attached.AttachedCluster`.

    `interfaces` are for faults. `hanging_transactions` is None if they cannot be observed.
    """

    interfaces: Cluster
    admin: Admin

    @property
    def hanging_transactions(self) -> HangingTransactions | None: ...

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def client_settings(self) -> dict[str, str]:
        """Security settings of clients, in librdkafka's names; secret."""

    def bootstrap(self, listener: str) -> str:
        """Return `bootstrap.servers` of clients that use this listener."""

    def create_topics(self, topics: Mapping[str, TopicSpec]) -> None:
        """Create the topics and wait until each of their partitions is at full ISR."""

    def await_full_isr(self, partitions: Sequence[TopicPartition]) -> None:
        """Wait until each of these partitions has a leader and a full ISR."""

    def clocks(self, now: Callable[[], datetime]) -> list[Clock]:
        """Return the clocks of the engine and the nodes, compared with `now`."""

    def take_metadata_log(self, run_dir: Path) -> MetadataLog:
        """Store the metadata log of the run in its directory; return its states."""

    def take_replica_logs(
        self, topics: Sequence[str], run_dir: Path
    ) -> Sequence[ReplicaLog] | None:
        """Store the batch headers of every replica; None if replicas cannot be observed."""
