"""A topic gets more replicas, or fewer, while it is written to.

Kafka has no request for it: it is a reassignment. More: brokers that have none are added behind.
Fewer: the last are dropped, the leader never.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster
from ackproof_faults.interfaces.operations import Placement
from ackproof_faults.operations._topic_operation import TopicOperation, described


class ChangeReplicationFactor(TopicOperation):
    """Have partitions have so many replicas."""

    name: ClassVar[str] = "change_replication_factor"
    proof: ClassVar[str] = "the metadata list as many replicas"
    fault: Literal["change_replication_factor"] = "change_replication_factor"
    replication_factor: int = Field(ge=1, description="how many replicas from now on")

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Ask for the new replicas; there must be something to change."""
        found = self.concerned(cluster)
        brokers = cluster.broker_ids()
        if self.replication_factor > len(brokers):
            raise FaultError(
                f"{self.replication_factor} replicas need as many brokers, and there are "
                f"{len(brokers)}"
            )
        wanted = {
            (self.topic, number): replicas(one, self.replication_factor, brokers)
            for number, one in found.items()
            if len(one.replicas) != self.replication_factor
        }
        if not wanted:
            raise FaultError(f"there is nothing to change: {described(self.topic, found)}")
        cluster.operations().reassign(wanted)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that every partition has so many replicas."""
        found = self.seen(
            cluster,
            lambda found: all(
                len(one.replicas) == self.replication_factor for one in found.values()
            ),
            "the replicas are not so many",
        )
        return described(self.topic, found)


def replicas(now: Placement, count: int, brokers: Sequence[int]) -> list[int]:
    """Return `count` replicas: those that are there (the leader stays), then further brokers."""
    kept = list(now.replicas)
    while len(kept) > count:
        kept.remove(next(one for one in reversed(kept) if one != now.leader or len(kept) == 1))
    further = [one for one in brokers if one not in now.replicas]
    return kept + further[: count - len(kept)]
