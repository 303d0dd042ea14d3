"""Operations on a topic under load: partitions, settings, its deletion, elections, other replicas.

With more partitions, keys map to other partitions. A topic that is created again has the same name,
a new id and no records; producers that still know the old topic must not get acks for the new topic
(KIP-516). Operators set `min.insync.replicas: 1` to make a partition with a small ISR writable
again: then acks=all may be the ack of a single replica.

An operator requests an election of the preferred leaders, or of any live replica (unclean).

A reassignment (KIP-455) copies the whole log to the new replicas, then removes the old replicas,
with the leader if it is not a new replica. A change of the replication factor is a reassignment: to
add replicas, brokers without a replica are appended; to remove replicas, the last ones except the
leader are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster, Placement
from ackproof_faults.operations._operation import Topic, TopicOperation, describe
from ackproof_model.effects import AddsPartitions, Configures, Effects, Elects, Reassigns, Removes


class AddPartitions(TopicOperation):
    """Increase the topic's partitions; Kafka cannot remove them again."""

    explained = True
    fault: Literal["add_partitions"] = "add_partitions"
    proof = "the controllers' metadata log, or ZooKeeper, has that many partitions, all led"
    partition: None = Field(default=None, description="not used: the operation is on the topic")
    partitions: int = Field(ge=2, description="the new number of partitions")

    @property
    def effects(self) -> Effects:
        return (AddsPartitions(topic=self.topic, partitions=self.partitions),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> int:
        """Return the number of partitions before."""
        count = len(self.existing(cluster, lambda found: len(found) < self.partitions))
        if count >= self.partitions:
            raise FaultError(f"{self.topic} already has {count} partitions")
        cluster.operations.add_partitions(self.topic, self.partitions)
        return count

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: int) -> Evidence:
        partitions = self.await_change(
            cluster,
            lambda found: (
                len(found) == self.partitions
                and all(one.leader is not None for one in found.values())
            ),
            "the partitions are not there",
        )
        return self.evidence(partitions, added=range(done, self.partitions))


class RecreateTopic(TopicOperation):
    """Delete the topic and create it with the same replicas and settings."""

    fault: Literal["recreate_topic"] = "recreate_topic"
    proof = "the topic's id has changed"
    partition: None = Field(default=None, description="not used: a topic is deleted as a whole")

    @property
    def effects(self) -> Effects:
        return (Removes(topic=self.topic),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        self.existing(cluster)
        cluster.operations.recreate(self.topic)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        before, now = cluster.operations.recreated(self.topic)
        if before is None or now is None or before == now:
            raise FaultError(f"the id of {self.topic} was {before} and is {now}: not recreated")
        partitions = self.await_change(cluster, bool, "the topic is not there")
        return Evidence(text=f"id {before} is now {now}; {describe(self.topic, partitions)}")


class AlterConfig(TopicOperation):
    """Change a topic's setting; heal restores it."""

    #: A controller deletes an ELR only in part, and fails when the topic is deleted
    #: (docs/reports-to-kafka).
    traceless = False
    fault: Literal["alter_config"] = "alter_config"
    proof = "the controllers' metadata log, or ZooKeeper, has the new value"
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
        current = cluster.operations.await_own_setting(
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


class PreferredElection(TopicOperation):
    """Elect the preferred leader of the partitions that have another leader."""

    explained = True
    fault: Literal["preferred_election"] = "preferred_election"
    proof = "by the controllers' metadata log, or ZooKeeper, the first replica leads each partition"

    @property
    def effects(self) -> Effects:
        return (Elects(topic=self.topic, partition=self.partition, unclean=False),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        partitions = self.existing(cluster, lambda found: not _preferred(found))
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

    explained = True
    fault: Literal["unclean_election"] = "unclean_election"
    proof = "by the controllers' metadata log, or ZooKeeper, every partition has a leader"

    @property
    def effects(self) -> Effects:
        return (Elects(topic=self.topic, partition=self.partition, unclean=True),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        partitions = self.existing(cluster, lambda found: not _led(found))
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


class Reassign(TopicOperation):
    """Move partitions to these replicas, or cancel their moves."""

    explained = True
    fault: Literal["reassign"] = "reassign"
    proof = "the controllers' metadata log, or ZooKeeper, lists the new replicas"
    to: list[int] = Field(
        default_factory=list,
        description="broker ids, the preferred leader first",
        examples=[[2, 3, 1]],
    )
    cancel: bool = Field(
        default=False, description="cancel the moves in progress; then without `to`"
    )

    @property
    def effects(self) -> Effects:
        to, count = tuple(self.to), len(self.to) or None
        return (
            Reassigns(
                topic=self.topic, partition=self.partition, to=to, count=count, cancels=self.cancel
            ),
        )

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from super().problems(shape)
        if bool(self.to) == self.cancel:
            yield "to", "name the brokers to move to, or say `cancel: true` in place of them"

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> Topic | None:
        """Request the new replicas, which must differ from the current replicas or their order.

        Returns the partitions before a cancellation.
        """
        if self.cancel:
            moving = self.existing(cluster)
            replicas = {(self.topic, number): one.replicas for number, one in moving.items()}
            cluster.operations.cancel_reassignment(replicas)
            return moving
        partitions = self.existing(cluster, lambda found: not self._placed(found))
        if self._placed(partitions):
            raise FaultError(f"there is nothing to move: {describe(self.topic, partitions)}")
        cluster.operations.reassign(dict.fromkeys(self.topic_partitions(list(partitions)), self.to))
        return None

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: Topic | None) -> Evidence:
        if done is not None:
            before = done
            partitions = self.await_change(
                cluster,
                lambda found: any(
                    set(one.replicas) < set(before[number].replicas)
                    for number, one in found.items()
                    if number in before
                ),
                "no move was cancelled",
            )
            return self.evidence(partitions, moved=partitions)
        partitions = self.await_change(
            cluster,
            lambda found: all(map(self._requested, found.values())),
            "the new replicas are not there",
        )
        return self.evidence(partitions, moved=partitions)

    def _placed(self, partitions: Topic) -> bool:
        return all(one.replicas == tuple(self.to) for one in partitions.values())

    def _requested(self, partition: Placement) -> bool:
        """Whether these replicas come first; those that the move removes follow until its end.

        (`PartitionReassignmentReplicas`, and `ReplicaAssignment` of ZooKeeper's controller.)
        """
        return partition.replicas[: len(self.to)] == tuple(self.to)

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: Topic | None) -> bool:
        """Whether every partition has exactly these replicas, or those of a later move, in sync."""
        partitions = self.current(cluster)
        in_sync = all(set(one.isr) == set(one.replicas) for one in partitions.values())
        if not partitions or not in_sync or self.cancel or self._placed(partitions):
            return bool(partitions) and in_sync
        decided = self.decided(cluster)
        return bool(decided) and not any(map(self._requested, decided.values()))


class ChangeReplicationFactor(TopicOperation):
    """Change the replication factor of a topic or partition."""

    requires = ("metadata", "operations")
    fault: Literal["change_replication_factor"] = "change_replication_factor"
    proof = "the controllers' metadata log, or ZooKeeper, lists that many replicas"
    replication_factor: int = Field(ge=1, description="the new number of replicas")

    @property
    def effects(self) -> Effects:
        return (
            Reassigns(topic=self.topic, partition=self.partition, count=self.replication_factor),
        )

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        partitions = self.existing(cluster, lambda found: not self._sized(found))
        brokers = cluster.metadata.broker_ids()
        if self.replication_factor > len(brokers):
            raise FaultError(
                f"{self.replication_factor} replicas need as many brokers, and there are "
                f"{len(brokers)}"
            )
        changes = {
            (self.topic, number): changed(one, self.replication_factor, brokers)
            for number, one in partitions.items()
            if len(one.replicas) != self.replication_factor
        }
        if not changes:
            raise FaultError(f"there is nothing to change: {describe(self.topic, partitions)}")
        cluster.operations.reassign(changes)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        partitions = self.await_change(
            cluster,
            self._sized,
            f"a partition does not have {self.replication_factor} replicas",
        )
        return self.evidence(partitions, moved=partitions)

    def _sized(self, partitions: Topic) -> bool:
        return all(len(one.replicas) == self.replication_factor for one in partitions.values())


def changed(current: Placement, count: int, brokers: Sequence[int]) -> list[int]:
    """Return `count` replicas: the current replicas, with the leader, then other brokers."""
    replicas = list(current.replicas)
    while len(replicas) > count:
        last = (one for one in reversed(replicas) if one != current.leader or len(replicas) == 1)
        replicas.remove(next(last))
    further = [one for one in brokers if one not in current.replicas]
    return replicas + further[: count - len(replicas)]
