"""A topic gets more partitions under load; then keys map to other partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.operations._operation import TopicOperation, describe
from ackproof_model.effects import AddsPartitions, Effects


class AddPartitions(TopicOperation):
    """Increase the topic's partitions; Kafka cannot remove them again."""

    explained: ClassVar[bool] = True
    fault: Literal["add_partitions"] = "add_partitions"
    proof: ClassVar[str] = "the metadata lists that many partitions, each with a leader"
    partition: None = Field(default=None, description="not used: the operation is on the topic")
    partitions: int = Field(ge=2, description="the new number of partitions")

    @property
    def effects(self) -> Effects:
        return (AddsPartitions(topic=self.topic),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        count = len(self.existing(cluster))
        if count >= self.partitions:
            raise FaultError(f"{self.topic} already has {count} partitions")
        cluster.operations.add_partitions(self.topic, self.partitions)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        partitions = self.await_change(
            cluster,
            lambda found: (
                len(found) == self.partitions
                and all(one.leader is not None for one in found.values())
            ),
            "the partitions are not there",
        )
        return Evidence(text=describe(self.topic, partitions))
