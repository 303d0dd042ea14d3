"""One byte of a log file changes: bit rot, a faulty controller or cable.

The broker does not notice: it serves batches as they are in the file. Consumers, followers and log
recovery check the batch's CRC and detect the change. Heal flips the byte back.
"""

from __future__ import annotations

import shlex
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from ackproof_faults.disk import _disk
from ackproof_faults.disk._disk import Batch, Partitions, partition_problems
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Fault, Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_model.effects import Alters, Effects

_ALL_BITS = 0xFF


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteFlip:
    """The byte at `position` of a file, inside `batch`; `original` is its value before."""

    broker: int
    partition: str
    batch: Batch
    path: str
    position: int
    original: int

    def apply(self, cluster: Cluster) -> None:
        self._write(cluster, self.original ^ _ALL_BITS)

    def revert(self, cluster: Cluster) -> None:
        """Flip the byte back, unless the broker has truncated, deleted or overwritten it."""
        sizes = {
            segment.path: segment.size
            for replica in _disk.replicas(cluster, self.broker)
            for segment in replica.segments
        }
        if sizes.get(self.path, 0) > self.position:
            content = cluster.volumes.read_file(self.broker, self.path)
            if content[self.position] == self.original ^ _ALL_BITS:
                self._write(cluster, self.original)

    def holds(self, cluster: Cluster) -> bool:
        """Whether the byte has changed, and the CRC-32C of its batch no longer matches.

        The CRC covers the bytes behind it (`DefaultRecordBatch.isValid`).
        """
        import google_crc32c

        content = cluster.volumes.read_file(self.broker, self.path)
        start, end = self.batch.position, self.batch.position + self.batch.size
        (crc,) = struct.unpack_from(">I", content, start + 17)
        intact = crc == google_crc32c.value(content[start + 21 : end])
        return content[self.position] != self.original and not intact

    def _write(self, cluster: Cluster, byte: int) -> None:
        _disk.run_script(
            cluster,
            self.broker,
            f"printf '\\x{byte:02x}' | dd of={shlex.quote(self.path)} bs=1 seek={self.position} "
            "conv=notrunc status=none",
        )


class FlipByte(Fault):
    """Flip one byte in the middle of a batch of each partition; heal flips it back."""

    requires = ("metadata", "volumes")
    occupies = "process"
    takes_bytes = True
    traceless = True
    fault: Literal["flip_byte"] = "flip_byte"
    proof = "the byte in the file has changed, and the batch's CRC does not match"
    partitions: Partitions = ()
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
        return Evidence.joined(
            f"broker {flip.broker} {flip.partition}: offsets {flip.batch.first} to "
            f"{flip.batch.last} do not match their CRC"
            for flip in done
        )

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: Sequence[ByteFlip] | None) -> None:
        for flip in done or ():
            flip.revert(cluster)

    def _plan(self, cluster: Cluster, node: int) -> list[ByteFlip]:
        """Return a flip in the middle of a batch of each partition that has such a batch."""
        flips = []
        for replica in _disk.select_replicas(cluster, node, self.partitions):
            if self.segment == "active" or len(replica.segments) > 1:
                path = replica.segments[-1 if self.segment == "active" else 0].path
                content = cluster.volumes.read_file(node, path)
                if batches := list(_disk.batches(content)):
                    batch = batches[-1 if self.batch == "last" else 0]
                    flips.append(
                        ByteFlip(
                            broker=node,
                            partition=replica.name,
                            batch=batch,
                            path=path,
                            position=batch.middle,
                            original=content[batch.middle],
                        )
                    )
        if not flips:
            raise FaultError(f"broker {node} has no batch in a {self.segment} segment")
        return flips
