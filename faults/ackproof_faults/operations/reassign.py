"""A partition moves to other brokers under load (KIP-455).

The new replicas copy the whole log, then the old replicas are removed, with the leader if it is not
a new replica.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.interfaces.cluster import Cluster
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
        return Evidence(text=describe(self.topic, partitions))

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: None) -> bool:
        """Whether every partition has exactly these replicas, all in sync."""
        partitions = self.current(cluster)
        return bool(partitions) and all(
            one.replicas == tuple(self.to) and set(one.isr) == set(self.to)
            for one in partitions.values()
        )
