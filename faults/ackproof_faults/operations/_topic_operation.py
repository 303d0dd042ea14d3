"""What an operator does to a topic: a fault, too, when it goes wrong under load.

An operation is not undone when the fault is healed, unless it says so: it is over when the cluster
has done it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from pydantic import Field

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.conditions.targets import Target, TargetSpec
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Fault
from ackproof_faults.interfaces.operations import Place, Placement

Topic = Mapping[int, Placement]


class TopicOperation(Fault):
    """An operation on a topic, or one partition of it; no node is touched."""

    disables: ClassVar[bool] = False

    target: Target = Field(
        default=TargetSpec(role="all"), description="ignored: an operation is on a topic"
    )
    topic: str = Field(description="the topic")
    partition: int | None = Field(
        default=None, ge=0, description="one partition; all of the topic if it is left out"
    )
    within: Duration = Field(
        default=10.0, gt=0, description="how long until the cluster shows that it has begun"
    )

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Do nothing: an operation is not undone."""

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int]) -> bool:
        """Whether every partition has a leader and a full ISR."""
        found = cluster.operations().topic(self.topic)
        return bool(found) and all(
            one.leader is not None and set(one.isr) == set(one.replicas) for one in found.values()
        )

    def there(self, cluster: Cluster) -> Topic:
        """Return the partitions that the operation is on; empty if nobody can say now."""
        found = cluster.operations().topic(self.topic)
        if self.partition is None:
            return found
        return {number: one for number, one in found.items() if number == self.partition}

    def concerned(self, cluster: Cluster) -> Topic:
        """Return the partitions that the operation is on; raise FaultError if there are none.

        The broker that is asked may not have heard of them yet, or not answer.
        """
        found = cluster.operations().await_topic(
            lambda: self.there(cluster), bool, within_s=self.within
        )
        if not found:
            raise FaultError(f"{self._what} is not there")
        return found

    def places(self, numbers: Sequence[int]) -> list[Place]:
        """Return these partitions with their topic."""
        return [(self.topic, number) for number in numbers]

    def seen(self, cluster: Cluster, good: Callable[[Topic], bool], problem: str) -> Topic:
        """Return the partitions once they are good; raise FaultError if they do not become so."""
        found = cluster.operations().await_topic(
            lambda: self.there(cluster),
            lambda found: bool(found) and good(found),
            within_s=self.within,
        )
        if not found:
            raise FaultError(f"{self._what} is not there")
        if not good(found):
            raise FaultError(f"{problem} after {self.within:g} s: {described(self.topic, found)}")
        return found

    @property
    def _what(self) -> str:
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"


def described(topic: str, partitions: Topic) -> str:
    """Return partitions in words."""
    return "; ".join(
        f"{topic}-{number}: leader {one.leader}, replicas {list(one.replicas)}, ISR {list(one.isr)}"
        for number, one in sorted(partitions.items())
    )
