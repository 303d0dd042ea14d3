"""A topic's setting is changed under load, and changed back.

Operators set `min.insync.replicas: 1` to make a partition with a small ISR writable again: then
acks=all may be the ack of a single replica.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.operations._operation import TopicOperation
from ackproof_model.effects import Configures, Effects


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
