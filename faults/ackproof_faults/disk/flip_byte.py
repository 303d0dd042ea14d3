"""One byte of a log file is not what was written: a disk, a controller or a cable lied.

The broker runs on and notices nothing: it hands out batches as they lie in the file. Who checks the
batch's CRC (consumers, followers, the broker when it recovers) finds it; heal flips the byte back.
"""

from __future__ import annotations

import shlex
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field, PrivateAttr

from ackproof_faults.disk import _disk
from ackproof_faults.disk._disk import Batch, Replica, Segment
from ackproof_faults.disk._partitions import Partitions, unknown
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Fault, Shape

_ALL_BITS = 0xFF


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flip:
    """The byte that was flipped: the batch it is in, where in the file, and what it was."""

    name: str
    batch: Batch
    path: str
    position: int
    was: int


class FlipByte(Fault):
    """Flip one byte in the middle of a batch of each partition; heal flips it back."""

    name: ClassVar[str] = "flip_byte"
    occupies: ClassVar[str] = "process"
    fault: Literal["flip_byte"] = "flip_byte"
    proof: ClassVar[str] = "the file has another byte there than before, and the batch another CRC"
    partitions: Partitions
    segment: Literal["active", "closed"] = Field(
        default="active", description="the segment that is written to, or the first full one"
    )
    batch: Literal["first", "last"] = Field(
        default="first", description="which whole batch of the segment"
    )

    _flips: dict[int, list[_Flip]] = PrivateAttr(default_factory=dict)

    def problems(self, shape: Shape) -> Iterator[tuple[str, str]]:
        """Yield partitions that are not there."""
        yield from unknown(self.partitions, shape)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Flip a byte of each partition that has a batch in such a segment."""
        self._flips.clear()
        for node in nodes:
            flips = self._flips.setdefault(node, [])
            for replica in _disk.chosen(cluster, node, self.partitions):
                if flip := self._choose(cluster, node, replica):
                    _write(cluster, node, flip, flip.was ^ _ALL_BITS)
                    flips.append(flip)
            if not flips:
                raise FaultError(f"broker {node} has no batch in a {self.segment} segment")

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that the file has the other byte, inside a batch whose CRC no longer fits."""
        proofs = []
        for node in nodes:
            for flip in self._flips.get(node, ()):
                content = cluster.read_file(node, flip.path)
                if content[flip.position] == flip.was or _sound(content, flip.batch):
                    raise FaultError(f"{flip.path} of broker {node} is as it was written")
                proofs.append(
                    f"broker {node} {flip.name}: offsets {flip.batch.first} to {flip.batch.last} "
                    "no longer fit their CRC"
                )
        if not proofs:
            raise FaultError("no byte was flipped")
        return "; ".join(proofs)

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Flip each byte back, where the broker has not cut it off or deleted it since."""
        for node in nodes:
            for flip in self._flips.pop(node, ()):
                here = {
                    one.path: one.size
                    for replica in _disk.replicas(cluster, node)
                    for one in replica.segments
                }
                if here.get(flip.path, 0) > flip.position:
                    content = cluster.read_file(node, flip.path)
                    if content[flip.position] == flip.was ^ _ALL_BITS:
                        _write(cluster, node, flip, flip.was)

    def _choose(self, cluster: Cluster, node: int, replica: Replica) -> _Flip | None:
        segment = self._segment(replica)
        if segment is None:
            return None
        content = cluster.read_file(node, segment.path)
        found = list(_disk.batches(content))
        if not found:
            return None
        batch = found[0 if self.batch == "first" else -1]
        return _Flip(
            name=replica.name,
            batch=batch,
            path=segment.path,
            position=batch.middle,
            was=content[batch.middle],
        )

    def _segment(self, replica: Replica) -> Segment | None:
        if self.segment == "active":
            return replica.segments[-1]
        return replica.segments[0] if len(replica.segments) > 1 else None


def _sound(content: bytes, batch: Batch) -> bool:
    """Whether the batch's CRC-32C fits what follows it (`DefaultRecordBatch.isValid`)."""
    import google_crc32c

    (crc,) = struct.unpack_from(">I", content, batch.position + 17)
    covered = content[batch.position + 21 : batch.position + batch.size]
    return bool(crc == google_crc32c.value(covered))


def _write(cluster: Cluster, node: int, flip: _Flip, byte: int) -> None:
    _disk.at_disk(
        cluster,
        node,
        f"printf '\\x{byte:02x}' | dd of={shlex.quote(flip.path)} bs=1 seek={flip.position} "
        "conv=notrunc status=none",
    )
