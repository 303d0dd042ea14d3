"""An operator requests an election: of the preferred leaders, or of any live replica (unclean)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.operations._operation import Topic, TopicOperation, describe
from ackproof_model.effects import Effects, Elects


class PreferredElection(TopicOperation):
    """Elect the preferred leader of the partitions that have another leader."""

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
        cluster.operations.elect(self.topic_partitions(others), unclean=False)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        partitions = self.await_change(cluster, _preferred, "a preferred leader does not lead")
        return Evidence(text=describe(self.topic, partitions))


def _preferred(partitions: Topic) -> bool:
    return all(one.leader == one.replicas[0] for one in partitions.values())


class UncleanElection(TopicOperation):
    """Elect any live replica for the partitions that have no leader."""

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
        cluster.operations.elect(self.topic_partitions(without), unclean=True)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        partitions = self.await_change(cluster, _led, "a partition has no leader")
        return Evidence(text=describe(self.topic, partitions))

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: None) -> bool:
        """Whether every partition has a leader; other replicas may still be down."""
        return _led(cluster.operations.topic(self.topic))


def _led(partitions: Topic) -> bool:
    return bool(partitions) and all(one.leader is not None for one in partitions.values())
