"""The disk is full: writes fail with ENOSPC, the broker takes its log directory offline.

It needs a disk of a known size (`cluster.disk`), so that nothing but the broker's own disk is
filled. A broker whose only log directory is offline ends by itself; heal deletes what filled the
disk and starts it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import ClassVar, Literal

from pydantic import Field, PrivateAttr

from ackproof_faults.disk import _disk
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Fault, Shape

_FILLER = "ackproof-filler"


class DiskFull(Fault):
    """Fill the disks of running brokers; heal frees them."""

    name: ClassVar[str] = "disk_full"
    fault: Literal["disk_full"] = "disk_full"
    proof: ClassVar[str] = "writing to the broker's disk fails: no space left on device"
    free: int = Field(default=0, ge=0, description="so many bytes are left free")

    _since: datetime = PrivateAttr(default=datetime.min.replace(tzinfo=UTC))

    def problems(self, shape: Shape) -> Iterator[tuple[str, str]]:
        """Yield a disk without a size of its own."""
        if shape.disk is None:
            yield "fault", "disk_full needs brokers with a disk of a known size: set cluster.disk"

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Write a file of zeros until nothing more fits, then shorten it by `free`."""
        self._since = datetime.now(UTC)
        for node in nodes:
            path = _path(cluster, node)
            _disk.at_disk(
                cluster,
                node,
                f"head -c 100G /dev/zero > {path} 2>/dev/null || :\n"
                f"size=$(stat -c %s {path})\n"
                f"truncate -s $((size > {self.free} ? size - {self.free} : 0)) {path}",
            )

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that a file bigger than `free` does not fit."""
        proofs = []
        for node in nodes:
            probe = f"{_path(cluster, node)}-probe"
            said = _disk.at_disk(
                cluster,
                node,
                f"head -c {self.free + (1 << 20)} /dev/zero 2>&1 > {probe} || :\nrm -f {probe}",
            )
            if "No space left on device" not in said:
                raise FaultError(f"the disk of broker {node} has room: {said.strip()}")
            proofs.append(f"broker {node}: no space left on device")
        return "; ".join(proofs)

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Delete the file, and start a broker that has ended for lack of room."""
        for node in nodes:
            path = _path(cluster, node)
            if _disk.at_disk(cluster, node, f"ls {path} 2>/dev/null || :\nrm -f {path}*"):
                if self._noticed(cluster, node):
                    cluster.terminate(node)  # it may be on its way out
                cluster.start(node)

    def _noticed(self, cluster: Cluster, node: int) -> bool:
        """Whether the broker has taken a log directory offline."""
        try:
            cluster.await_logged(node, _disk.DIRECTORY_FAILED, since=self._since, within_s=0)
        except FaultError:
            return False
        return True


def _path(cluster: Cluster, node: int) -> str:
    return f"{cluster.log_directories(node)[0].rpartition('/')[0]}/{_FILLER}"
