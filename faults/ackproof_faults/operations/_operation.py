"""The base classes of operations.

Most operations are not undone when the fault is healed: they end when the cluster has completed
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.conditions.targets import Target
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Fault, Problem, Shape, untargeted
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames, Placement, TopicPartition

#: Partitions of a topic, by number.
Topic = Mapping[int, Placement]


class Operation(Fault):
    """An operation that is not undone."""

    requires: ClassVar[InterfaceNames] = ("metadata", "operations")

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: Any) -> None:
        """Do nothing."""


class TopicOperation(Operation):
    """An operation on a topic or one of its partitions, without target nodes."""

    requires: ClassVar[InterfaceNames] = ("operations",)
    hits = "topic"
    disables = False
    traceless = True

    target: Target = untargeted("ignored: the operation is on a topic")
    topic: str = Field(description="the topic")
    partition: int | None = Field(
        default=None, ge=0, description="one partition; all of the topic if it is left out"
    )
    within: Duration = Field(
        default=10.0, gt=0, description="how long until the controllers have decided it"
    )

    def problems(self, shape: Shape) -> Iterator[Problem]:
        if self.topic not in shape.topics:
            yield "topic", f"there is no topic {self.topic!r} ({', '.join(sorted(shape.topics))})"
        elif (self.partition or 0) >= (count := shape.topics[self.topic]):
            yield "topic", f"{self.topic} has partitions 0 to {count - 1}, not {self.partition}"

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: Any) -> bool:
        """Whether every partition has a leader and a full ISR."""
        partitions = cluster.operations.topic(self.topic)
        return bool(partitions) and all(
            one.leader is not None and set(one.isr) == set(one.replicas)
            for one in partitions.values()
        )

    def current(self, cluster: Cluster) -> Topic:
        """Return the operation's partitions as a broker knows them; empty if they are unknown."""
        return self._own(cluster.operations.topic(self.topic))

    def decided(self, cluster: Cluster) -> Topic:
        """Return the operation's partitions as the controllers have decided; empty if unknown."""
        return self._own(cluster.operations.decided(self.topic))

    def _own(self, partitions: Topic) -> Topic:
        if self.partition is None:
            return partitions
        return {number: one for number, one in partitions.items() if number == self.partition}

    def existing(self, cluster: Cluster, changes: Callable[[Topic], bool] = bool) -> Topic:
        """Return the operation's partitions; raise FaultError if they do not exist.

        It waits, because a broker may not know new partitions yet. If by the broker's metadata the
        operation `changes` nothing, the controllers are asked: that metadata may be old.
        """
        partitions = cluster.operations.await_topic(
            lambda: self.current(cluster), bool, within_s=self.within
        )
        if not partitions:
            raise FaultError(f"{self._what} is not there")
        return partitions if changes(partitions) else self.decided(cluster) or partitions

    def topic_partitions(self, numbers: Sequence[int]) -> list[TopicPartition]:
        return [(self.topic, number) for number in numbers]

    def await_change(self, cluster: Cluster, good: Callable[[Topic], bool], problem: str) -> Topic:
        """Return the partitions once the controllers' decisions are `good`.

        Raises FaultError after `within`.
        """
        partitions = cluster.operations.await_topic(
            lambda: self.decided(cluster),
            lambda found: bool(found) and good(found),
            within_s=self.within,
        )
        if not partitions:
            raise FaultError(f"{self._what} is not there")
        if not good(partitions):
            described = describe(self.topic, partitions)
            raise FaultError(f"{problem} after {self.within:g} s: {described}")
        return partitions

    def evidence(self, partitions: Topic, **changed: Iterable[int]) -> Evidence:
        """Return the state of the partitions, and in `facts` those that it `added` or `moved`.

        A run in which no client used them has not exercised the operation.
        """
        facts = {how: {self.topic: sorted(numbers)} for how, numbers in changed.items()}
        return Evidence(text=describe(self.topic, partitions), facts=facts)

    @property
    def _what(self) -> str:
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"


def describe(topic: str, partitions: Topic) -> str:
    """Return leader, replicas and ISR of the partitions, in words."""
    return "; ".join(
        f"{topic}-{number}: leader {one.leader}, replicas {list(one.replicas)}, ISR {list(one.isr)}"
        for number, one in sorted(partitions.items())
    )
