"""A topic's setting is changed while it is written to, and changed back.

`min.insync.replicas: 1` is what operators set to get a partition going again that has too few
replicas in sync: from then on an ack of all may be an ack of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster
from ackproof_faults.operations._topic_operation import TopicOperation


class AlterConfig(TopicOperation):
    """Set a topic's setting; heal sets it back."""

    name: ClassVar[str] = "alter_config"
    proof: ClassVar[str] = "a broker describes the topic with the new value"
    fault: Literal["alter_config"] = "alter_config"
    partition: None = Field(default=None, description="not used: settings are a topic's")
    key: str = Field(min_length=1, description="the setting, by Kafka's name")
    value: str | int | float | bool = Field(description="its value while the fault holds")

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Set it; it must have another value now."""
        now = cluster.operations().setting(self.topic, self.key)
        if now == self._text:
            raise FaultError(f"{self.key} of {self.topic} is {now} already")
        cluster.operations().override(self.topic, self.key, self._text)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that a broker says the setting is in force."""
        found = cluster.operations().await_setting(
            self.topic, self.key, self._text, within_s=self.within
        )
        if found != self._text:
            raise FaultError(f"{self.key} of {self.topic} is {found}, not {self._text}")
        return f"{self.key} of {self.topic} is {found}"

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Set it back to what it was."""
        cluster.operations().restore(self.topic, self.key)

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int]) -> bool:
        """Whether a broker says that it is back."""
        found = cluster.operations().setting(self.topic, self.key)
        return found is not None and found != self._text

    @property
    def _text(self) -> str:
        value = self.value
        return str(value).lower() if isinstance(value, bool) else str(value)
