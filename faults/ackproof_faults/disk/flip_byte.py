"""One byte of a log file is not what was written: bit rot, a faulty controller or cable.

The broker does not notice: it serves batches as they are in the file. Whoever checks the batch's
CRC (consumers, followers, the broker when it recovers) finds it. Heal flips the byte back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.disk import _disk
from ackproof_faults.disk._byte_flip import ByteFlip, plan_flip
from ackproof_faults.disk._partitions import Partitions, partition_problems
from ackproof_faults.errors import FaultError
from ackproof_faults.evidence import Evidence
from ackproof_faults.fault import Fault, Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_model.effects import Alters, Effects


class FlipByte(Fault):
    """Flip one byte in the middle of a batch of each partition; heal flips it back."""

    name: ClassVar[str] = "flip_byte"
    requires: ClassVar[InterfaceNames] = ("metadata", "volumes")
    occupies: ClassVar[str] = "process"
    takes_bytes: ClassVar[bool] = True
    traceless: ClassVar[bool] = True
    fault: Literal["flip_byte"] = "flip_byte"
    proof: ClassVar[str] = "the byte in the file has changed, and the batch's CRC does not match"
    partitions: Partitions
    segment: Literal["active", "closed"] = Field(
        default="active", description="the segment that is written to, or the first full one"
    )
    batch: Literal["first", "last"] = Field(
        default="first", description="which whole batch of the segment"
    )

    @property
    def effects(self) -> Effects:
        return (Alters(partitions=self.partitions),)

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from partition_problems(self.partitions, shape)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> tuple[ByteFlip, ...]:
        """Flip a byte of each partition that has a batch in such a segment."""
        flips = [flip for node in nodes for flip in self._plan(cluster, node)]
        try:
            for flip in flips:
                flip.apply(cluster)
        except FaultError:
            self.heal(cluster, nodes, tuple(flips))
            raise
        return tuple(flips)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: Sequence[ByteFlip]) -> Evidence:
        if not done:
            raise FaultError("no byte was flipped")
        for flip in done:
            if not flip.holds(cluster):
                raise FaultError(f"{flip.path} of broker {flip.broker} is unchanged")
        return Evidence(
            text="; ".join(
                f"broker {flip.broker} {flip.partition}: offsets {flip.batch.first} to "
                f"{flip.batch.last} do not match their CRC"
                for flip in done
            )
        )

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: Sequence[ByteFlip] | None) -> None:
        for flip in done or ():
            flip.revert(cluster)

    def _plan(self, cluster: Cluster, node: int) -> list[ByteFlip]:
        flips = []
        for replica in _disk.select_replicas(cluster, node, self.partitions):
            if self.segment == "active" or len(replica.segments) > 1:
                segment = replica.segments[-1 if self.segment == "active" else 0]
                flip = plan_flip(cluster, node, replica, segment, last=self.batch == "last")
                flips += [flip] if flip else []
        if not flips:
            raise FaultError(f"broker {node} has no batch in a {self.segment} segment")
        return flips
