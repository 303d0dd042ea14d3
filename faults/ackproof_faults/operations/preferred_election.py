"""Leadership goes back to each partition's preferred leader, the first of its replicas.

The broker that leads now is healthy: clients meet NOT_LEADER_OR_FOLLOWER in the middle of their
sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster
from ackproof_faults.operations._topic_operation import Topic, TopicOperation, described


class PreferredElection(TopicOperation):
    """Elect the preferred leader of the partitions that another broker leads."""

    name: ClassVar[str] = "preferred_election"
    proof: ClassVar[str] = "in the metadata the first replica leads each partition"
    fault: Literal["preferred_election"] = "preferred_election"

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Ask for the election where it changes something; somewhere it must."""
        found = self.concerned(cluster)
        others = [number for number, one in found.items() if one.leader != one.replicas[0]]
        if not others:
            raise FaultError(f"the preferred leaders lead already: {described(self.topic, found)}")
        cluster.operations().elect(self.places(others), unclean=False)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that every partition is led by the first of its replicas."""
        found = self.seen(cluster, _preferred, "a preferred leader does not lead")
        return described(self.topic, found)


def _preferred(found: Topic) -> bool:
    return all(one.leader == one.replicas[0] for one in found.values())
