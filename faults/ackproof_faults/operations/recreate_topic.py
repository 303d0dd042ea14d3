"""A topic is deleted and created again under load, with the same name and a new id.

All its records are deleted. Producers that still know the old topic must not get acks for the new
topic (KIP-516).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.operations._operation import TopicOperation, describe
from ackproof_model.effects import Effects, Removes


class RecreateTopic(TopicOperation):
    """Delete the topic and create it with the same replicas and settings."""

    fault: Literal["recreate_topic"] = "recreate_topic"
    proof: ClassVar[str] = "the topic's id has changed"
    partition: None = Field(default=None, description="not used: a topic is deleted as a whole")

    @property
    def effects(self) -> Effects:
        return (Removes(topic=self.topic),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        self.existing(cluster)
        cluster.operations.recreate(self.topic)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        before, now = cluster.operations.recreated(self.topic)
        if before is None or now is None or before == now:
            raise FaultError(f"the id of {self.topic} was {before} and is {now}: not recreated")
        partitions = self.await_change(cluster, bool, "the topic is not there")
        return Evidence(text=f"id {before} is now {now}; {describe(self.topic, partitions)}")
