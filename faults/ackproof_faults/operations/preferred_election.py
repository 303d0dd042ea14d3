"""Leadership returns to each partition's preferred leader, the first of its replicas.

The current leader is healthy: clients get NOT_LEADER_OR_FOLLOWER in the middle of their sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.errors import FaultError
from ackproof_faults.evidence import Evidence
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.operations._topic_operation import Topic, TopicOperation, describe
from ackproof_model.effects import Effects, Elects


class PreferredElection(TopicOperation):
    """Elect the preferred leader of the partitions that another broker leads."""

    name: ClassVar[str] = "preferred_election"
    explained: ClassVar[bool] = True
    fault: Literal["preferred_election"] = "preferred_election"
    proof: ClassVar[str] = "according to the metadata the first replica leads each partition"

    @property
    def effects(self) -> Effects:
        return (Elects(topic=self.topic, partition=self.partition, unclean=False),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        partitions = self.existing(cluster)
        others = [number for number, one in partitions.items() if one.leader != one.replicas[0]]
        if not others:
            raise FaultError(
                f"the preferred leaders lead already: {describe(self.topic, partitions)}"
            )
        cluster.operations.elect(self.places(others), unclean=False)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        partitions = self.await_change(cluster, _preferred, "a preferred leader does not lead")
        return Evidence(text=describe(self.topic, partitions))


def _preferred(partitions: Topic) -> bool:
    return all(one.leader == one.replicas[0] for one in partitions.values())
