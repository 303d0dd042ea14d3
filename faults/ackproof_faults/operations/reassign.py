"""Partitions get other replicas under load (KIP-455).

The new replicas copy the whole log, then the old replicas are removed, with the leader if it is not
a new replica. A change of the replication factor is a reassignment: to add replicas, brokers
without a replica are appended; to remove replicas, the last ones except the leader are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames, Placement
from ackproof_faults.operations._operation import TopicOperation, describe
from ackproof_model.effects import Effects, Reassigns


class Reassign(TopicOperation):
    """Move partitions to these replicas."""

    fault: Literal["reassign"] = "reassign"
    proof: ClassVar[str] = "the metadata lists the new replicas"
    to: list[int] = Field(
        min_length=1, description="broker ids, the preferred leader first", examples=[[2, 3, 1]]
    )

    @property
    def effects(self) -> Effects:
        to = tuple(self.to)
        return (Reassigns(topic=self.topic, partition=self.partition, to=to, count=len(to)),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Request the new replicas, which must differ from the current replicas or their order."""
        partitions = self.existing(cluster)
        if all(one.replicas == tuple(self.to) for one in partitions.values()):
            raise FaultError(f"there is nothing to move: {describe(self.topic, partitions)}")
        cluster.operations.reassign(dict.fromkeys(self.topic_partitions(list(partitions)), self.to))

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        partitions = self.await_change(
            cluster,
            lambda found: all(set(self.to) <= set(one.replicas) for one in found.values()),
            "the new replicas are not there",
        )
        return self.evidence(partitions, moved=partitions)

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: None) -> bool:
        """Whether every partition has exactly these replicas, all in sync."""
        partitions = self.current(cluster)
        return bool(partitions) and all(
            one.replicas == tuple(self.to) and set(one.isr) == set(self.to)
            for one in partitions.values()
        )


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
        return self.evidence(partitions, moved=partitions)


def changed(current: Placement, count: int, brokers: Sequence[int]) -> list[int]:
    """Return `count` replicas: the current replicas, with the leader, then other brokers."""
    replicas = list(current.replicas)
    while len(replicas) > count:
        last = (one for one in reversed(replicas) if one != current.leader or len(replicas) == 1)
        replicas.remove(next(last))
    further = [one for one in brokers if one not in current.replicas]
    return replicas + further[: count - len(replicas)]
