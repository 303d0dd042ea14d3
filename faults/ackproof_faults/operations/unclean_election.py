"""An operator elects a replica that is not in sync, because no replica in sync is alive.

What only the replicas in sync had is lost. The partition must be without a leader: otherwise Kafka
has nothing to elect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.errors import FaultError
from ackproof_faults.evidence import Evidence
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.operations._topic_operation import Topic, TopicOperation, describe
from ackproof_model.effects import Effects, Elects


class UncleanElection(TopicOperation):
    """Elect any live replica for the partitions that have no leader."""

    name: ClassVar[str] = "unclean_election"
    explained: ClassVar[bool] = True
    fault: Literal["unclean_election"] = "unclean_election"
    proof: ClassVar[str] = "according to the metadata every partition has a leader"

    @property
    def effects(self) -> Effects:
        return (Elects(topic=self.topic, partition=self.partition, unclean=True),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        partitions = self.existing(cluster)
        without = [number for number, one in partitions.items() if one.leader is None]
        if not without:
            raise FaultError(f"every partition has a leader: {describe(self.topic, partitions)}")
        cluster.operations.elect(self.places(without), unclean=True)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        partitions = self.await_change(cluster, _led, "a partition has no leader")
        return Evidence(text=describe(self.topic, partitions))

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: None) -> bool:
        """Whether every partition has a leader; the other replicas may be down for long."""
        return _led(cluster.operations.topic(self.topic))


def _led(partitions: Topic) -> bool:
    return bool(partitions) and all(one.leader is not None for one in partitions.values())
