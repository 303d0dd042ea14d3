"""The replication factor of a topic is changed under load.

It is a reassignment. To add replicas, brokers without a replica are appended; to remove replicas,
the last ones except the leader are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames, Placement
from ackproof_faults.operations._operation import TopicOperation, describe
from ackproof_model.effects import Effects, Reassigns


class ChangeReplicationFactor(TopicOperation):
    """Change the replication factor of a topic or partition."""

    requires: ClassVar[InterfaceNames] = ("metadata", "operations")
    fault: Literal["change_replication_factor"] = "change_replication_factor"
    proof: ClassVar[str] = "the metadata lists that many replicas"
    replication_factor: int = Field(ge=1, description="the new number of replicas")

    @property
    def effects(self) -> Effects:
        return (
            Reassigns(topic=self.topic, partition=self.partition, count=self.replication_factor),
        )

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        partitions = self.existing(cluster)
        brokers = cluster.metadata.broker_ids()
        if self.replication_factor > len(brokers):
            raise FaultError(
                f"{self.replication_factor} replicas need as many brokers, and there are "
                f"{len(brokers)}"
            )
        changes = {
            (self.topic, number): changed(one, self.replication_factor, brokers)
            for number, one in partitions.items()
            if len(one.replicas) != self.replication_factor
        }
        if not changes:
            raise FaultError(f"there is nothing to change: {describe(self.topic, partitions)}")
        cluster.operations.reassign(changes)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        partitions = self.await_change(
            cluster,
            lambda found: all(
                len(one.replicas) == self.replication_factor for one in found.values()
            ),
            f"a partition does not have {self.replication_factor} replicas",
        )
        return Evidence(text=describe(self.topic, partitions))


def changed(current: Placement, count: int, brokers: Sequence[int]) -> list[int]:
    """Return `count` replicas: the current replicas, with the leader, then other brokers."""
    replicas = list(current.replicas)
    while len(replicas) > count:
        last = (one for one in reversed(replicas) if one != current.leader or len(replicas) == 1)
        replicas.remove(next(last))
    further = [one for one in brokers if one not in current.replicas]
    return replicas + further[: count - len(replicas)]
