"""An administrator resets or deletes the offsets of a group, as Kafka's tools do.

Kafka refuses both while the group has members. A killed member stays one until its session times
out, so the operations wait. Afterwards a consumer group goes on at the new offsets, or where
`auto.offset.reset` says if there are none. A share group delivers every record from its new start
offset on, whether it was accepted or not, and no earlier one (KIP-932).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.conditions.targets import Target
from ackproof_faults.evidence import Evidence, FaultError, Json
from ackproof_faults.fault import Problem, Shape, untargeted
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.operations._operation import TopicOperation
from ackproof_model.effects import Effects, SetsOffsets

#: A group's offsets in a topic, by partition.
Offsets = Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A group's offsets before an operation, and those that Kafka's tool says it has set."""

    before: Offsets
    asked: Offsets


class GroupOperation(TopicOperation):
    """An operation on the offsets of a group without members."""

    hits = "group"
    explained = True
    proof = "Kafka describes the group with the new offsets; before, it had others"

    target: Target = untargeted("ignored: the operation is on a group")
    group: str = Field(description="the group, a consumer group or a share group")
    topic: str = Field(description="the topic whose offsets change")
    partition: None = Field(default=None, description="not used: all partitions of the topic")
    within: Duration = Field(
        default=60.0, gt=0, description="how long to wait until the group has no members"
    )

    @property
    def _to(self) -> int | Literal["earliest", "latest"] | None:
        """The offset that the group gets in each partition; None for none."""
        return None

    @property
    def effects(self) -> Effects:
        return (SetsOffsets(group=self.group, to=self._to),)

    def problems(self, shape: Shape) -> Iterator[Problem]:
        read = shape.groups.get(self.group)
        if read is None:
            known = ", ".join(shape.groups) or "workload.consumers is empty"
            yield "group", f"there is no group {self.group!r} ({known})"
        elif read != self.topic:
            yield "topic", f"{self.group} reads {read}, not {self.topic}"
        elif spared := shape.spared.get(self.group):
            names = ", ".join(f"consumer {number}" for number in spared)
            yield (
                "group",
                f"Kafka refuses to change the offsets of a group with members, and no fault ends "
                f"{names} of {self.group}: add {{fault: crash_client, client: consumers}}",
            )

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> Change:
        before = cluster.operations.group_offsets(self.group, self.topic)
        asked = cluster.operations.set_offsets(
            self.group, self.topic, self._to, within_s=self.within
        )
        return Change(before=before, asked=asked)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: Change) -> Evidence:
        now = cluster.operations.group_offsets(self.group, self.topic)
        if now != done.asked:
            raise FaultError(f"{self.group} has the offsets {now}, not {done.asked}")
        if now == done.before:
            raise FaultError(f"{self.group} had these offsets already: {now}")
        numbers = sorted({*done.before, *now})
        text = "; ".join(
            f"{self.topic}-{number}: {_word(done.before.get(number))} -> {_word(now.get(number))}"
            for number in numbers
        )
        offsets: Json = {
            str(number): [done.before.get(number), now.get(number)] for number in numbers
        }
        reset: Json = {"group": self.group, "topic": self.topic, "offsets": offsets}
        return Evidence(text=f"offsets of {self.group}: {text}", facts={"reset": reset})


def _word(offset: int | None) -> str:
    return "none" if offset is None else str(offset)


class ResetOffsets(GroupOperation):
    """Set the offsets of a group without members, in all partitions of a topic."""

    fault: Literal["reset_offsets"] = "reset_offsets"
    to: Literal["earliest", "latest"] | Annotated[int, Field(ge=0)] = Field(
        description="the begin or the end of each partition, or an offset within them",
        examples=["latest", 0],
    )

    @property
    def _to(self) -> int | Literal["earliest", "latest"] | None:
        return self.to


class DeleteOffsets(GroupOperation):
    """Delete the offsets of a group without members, in all partitions of a topic."""

    fault: Literal["delete_offsets"] = "delete_offsets"
