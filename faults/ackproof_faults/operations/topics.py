"""A topic gets more partitions or another setting, or is deleted and created again, under load.

With more partitions, keys map to other partitions. A topic that is created again has the same name,
a new id and no records; producers that still know the old topic must not get acks for the new topic
(KIP-516). Operators set `min.insync.replicas: 1` to make a partition with a small ISR writable
again: then acks=all may be the ack of a single replica.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.operations._operation import TopicOperation, describe
from ackproof_model.effects import AddsPartitions, Configures, Effects, Removes


class AddPartitions(TopicOperation):
    """Increase the topic's partitions; Kafka cannot remove them again."""

    explained: ClassVar[bool] = True
    fault: Literal["add_partitions"] = "add_partitions"
    proof: ClassVar[str] = "the metadata lists that many partitions, each with a leader"
    partition: None = Field(default=None, description="not used: the operation is on the topic")
    partitions: int = Field(ge=2, description="the new number of partitions")

    @property
    def effects(self) -> Effects:
        return (AddsPartitions(topic=self.topic, partitions=self.partitions),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> int:
        """Return the number of partitions before."""
        count = len(self.existing(cluster))
        if count >= self.partitions:
            raise FaultError(f"{self.topic} already has {count} partitions")
        cluster.operations.add_partitions(self.topic, self.partitions)
        return count

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: int) -> Evidence:
        partitions = self.await_change(
            cluster,
            lambda found: (
                len(found) == self.partitions
                and all(one.leader is not None for one in found.values())
            ),
            "the partitions are not there",
        )
        return self.evidence(partitions, added=range(done, self.partitions))


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


class AlterConfig(TopicOperation):
    """Change a topic's setting; heal restores it."""

    #: A controller deletes an ELR only in part, and fails when the topic is deleted
    #: (docs/findings).
    traceless: ClassVar[bool] = False
    fault: Literal["alter_config"] = "alter_config"
    proof: ClassVar[str] = "a broker describes the topic with the new value"
    partition: None = Field(default=None, description="not used: settings belong to the topic")
    key: str = Field(min_length=1, description="the setting, by Kafka's name")
    value: str | int | float | bool = Field(description="its value while the fault holds")

    @property
    def effects(self) -> Effects:
        return (Configures(topic=self.topic, key=self.key, value=self._text),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        current = cluster.operations.setting(self.topic, self.key)
        if current == self._text:
            raise FaultError(f"{self.key} of {self.topic} is already {current}")
        cluster.operations.override(self.topic, self.key, self._text)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        current = cluster.operations.await_setting(
            self.topic, self.key, self._text, within_s=self.within
        )
        if current != self._text:
            raise FaultError(f"{self.key} of {self.topic} is {current}, not {self._text}")
        return Evidence(text=f"{self.key} of {self.topic} is {current}")

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None:
        cluster.operations.restore(self.topic, self.key)

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: None) -> bool:
        """Whether a broker describes the topic with another value."""
        current = cluster.operations.setting(self.topic, self.key)
        return current is not None and current != self._text

    @property
    def _text(self) -> str:
        value = self.value
        return str(value).lower() if isinstance(value, bool) else str(value)
