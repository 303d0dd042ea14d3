"""A cluster that clients know by its bootstrap servers only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ackproof.cluster.admin import Admin, PartitionView, TopicPartition
from ackproof.cluster.readiness import below_full_isr
from ackproof.errors import ClusterError
from ackproof.waiting import wait_for

_ISR_S = 90.0


class RunningCluster:
    """What can be asked of a running cluster. `settings` are librdkafka's client settings."""

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, str]) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.client_settings = dict(settings)
        self.admin = Admin(bootstrap_servers, settings=settings)

    def await_full_isr(
        self, partitions: Sequence[TopicPartition], *, within_s: float = _ISR_S
    ) -> None:
        """Wait until each of these partitions has a leader and a full ISR."""

        def failure(views: Mapping[TopicPartition, PartitionView]) -> ClusterError:
            late = "; ".join(below_full_isr(views, partitions)[:8])
            return ClusterError(f"not at full ISR after {within_s:g} s: {late}")

        wait_for(
            self.admin.partitions,
            lambda views: not below_full_isr(views, partitions),
            within_s=within_s,
            failure=failure,
        )
