"""A topic is deleted and created again, with the same name, under its producers.

Everything in it is gone. Producers that still know the old topic must not be told that their sends
are in the new one (KIP-516: a topic has an id beside its name).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster
from ackproof_faults.operations._topic_operation import TopicOperation, described


class RecreateTopic(TopicOperation):
    """Delete the topic and create it with the same replicas and settings."""

    name: ClassVar[str] = "recreate_topic"
    proof: ClassVar[str] = "the topic's id is another one"
    fault: Literal["recreate_topic"] = "recreate_topic"
    partition: None = Field(default=None, description="not used: a topic is deleted as a whole")

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Delete it and create it."""
        self.concerned(cluster)
        cluster.operations().recreate(self.topic)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require another topic of this name: it has another id."""
        before, now = cluster.operations().recreated(self.topic)
        if before is None or now is None or before == now:
            raise FaultError(f"the id of {self.topic} was {before} and is {now}: not another topic")
        found = self.seen(cluster, bool, "the topic is not there")
        return f"id {before} is now {now}; {described(self.topic, found)}"
