"""An operator elects a replica that is not in sync, because nobody else is there to lead.

What only the replicas in sync had is lost. The partition must be without a leader: with one, Kafka
has nothing to elect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster
from ackproof_faults.operations._topic_operation import Topic, TopicOperation, described


class UncleanElection(TopicOperation):
    """Elect whoever is there for the partitions that have no leader."""

    name: ClassVar[str] = "unclean_election"
    proof: ClassVar[str] = "in the metadata every partition has a leader"
    fault: Literal["unclean_election"] = "unclean_election"

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Ask for the election; at least one partition must be without a leader."""
        found = self.concerned(cluster)
        without = [number for number, one in found.items() if one.leader is None]
        if not without:
            raise FaultError(f"every partition has a leader: {described(self.topic, found)}")
        cluster.operations().elect(self.places(without), unclean=True)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that every partition has a leader."""
        return described(self.topic, self.seen(cluster, _led, "a partition has no leader"))

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int]) -> bool:
        """Whether every partition has a leader: the other replicas may be down for long."""
        return _led(cluster.operations().topic(self.topic))


def _led(found: Topic) -> bool:
    return bool(found) and all(one.leader is not None for one in found.values())
