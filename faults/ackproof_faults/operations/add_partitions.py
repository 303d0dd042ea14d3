"""A topic gets further partitions while it is written to: keys go elsewhere from now on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster
from ackproof_faults.operations._topic_operation import TopicOperation, described


class AddPartitions(TopicOperation):
    """Have the topic have more partitions; Kafka cannot take them back."""

    name: ClassVar[str] = "add_partitions"
    proof: ClassVar[str] = "the metadata list as many partitions, each with a leader"
    fault: Literal["add_partitions"] = "add_partitions"
    partition: None = Field(default=None, description="not used: it is the topic that grows")
    partitions: int = Field(ge=2, description="how many from now on")

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Ask for the partitions; they must be more than there are."""
        found = self.concerned(cluster)
        if len(found) >= self.partitions:
            raise FaultError(f"{self.topic} has {len(found)} partitions already")
        cluster.operations().add_partitions(self.topic, self.partitions)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that the topic has so many partitions, each with a leader."""
        found = self.seen(
            cluster,
            lambda found: (
                len(found) == self.partitions
                and all(one.leader is not None for one in found.values())
            ),
            "the partitions are not there",
        )
        return described(self.topic, found)
