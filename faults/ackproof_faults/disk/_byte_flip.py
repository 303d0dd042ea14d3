"""One byte of a batch, flipped in its file."""

from __future__ import annotations

import shlex
import struct
from dataclasses import dataclass

from ackproof_faults.disk import _disk
from ackproof_faults.disk._disk import Batch, Replica, Segment
from ackproof_faults.interfaces.cluster import Cluster

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
        """Flip the byte back, unless the broker has cut it off, deleted it or overwritten it."""
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

        The CRC covers what follows it (`DefaultRecordBatch.isValid`).
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


def plan_flip(
    cluster: Cluster, broker: int, replica: Replica, segment: Segment, *, last: bool
) -> ByteFlip | None:
    """Return a flip in the middle of the segment's first or last batch; None without batches."""
    content = cluster.volumes.read_file(broker, segment.path)
    batches = list(_disk.batches(content))
    if not batches:
        return None
    batch = batches[-1 if last else 0]
    return ByteFlip(
        broker=broker,
        partition=replica.name,
        batch=batch,
        path=segment.path,
        position=batch.middle,
        original=content[batch.middle],
    )
