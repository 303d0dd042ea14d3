"""A partition moves to other brokers while it is written to (KIP-455).

The new replicas copy everything, then the old ones are dropped, and the leader with them if it is
not among the new.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster
from ackproof_faults.operations._topic_operation import Topic, TopicOperation, described


class Reassign(TopicOperation):
    """Give partitions these replicas."""

    name: ClassVar[str] = "reassign"
    proof: ClassVar[str] = "the metadata list the new replicas"
    fault: Literal["reassign"] = "reassign"
    to: list[int] = Field(
        min_length=1, description="broker ids, the preferred leader first", examples=[[2, 3, 1]]
    )

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Ask for the new replicas; they must differ from what is there, at least in order."""
        found = self.concerned(cluster)
        if all(one.replicas == tuple(self.to) for one in found.values()):
            raise FaultError(f"there is nothing to move: {described(self.topic, found)}")
        cluster.operations().reassign(dict.fromkeys(self.places(list(found)), self.to))

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that every partition counts the new replicas among its own."""
        found = self.seen(
            cluster,
            lambda found: all(set(self.to) <= set(one.replicas) for one in found.values()),
            "the new replicas are not there",
        )
        return described(self.topic, found)

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int]) -> bool:
        """Whether every partition has exactly these replicas, all in sync."""
        return _moved(self.there(cluster), self.to)


def _moved(found: Topic, to: Sequence[int]) -> bool:
    return bool(found) and all(
        one.replicas == tuple(to) and set(one.isr) == set(to) for one in found.values()
    )
