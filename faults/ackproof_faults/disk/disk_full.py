"""The disk is full: writes fail with ENOSPC, and the broker takes its log directory offline.

It needs a disk of a known size (`cluster.disk`), so that only the broker's own disk is filled. A
broker whose only log directory is offline ends by itself. Heal deletes the file that fills the disk
and starts the broker again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.disk import _disk
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Fault, Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_model.effects import Effects, Unreachable

_FILLER = "ackproof-filler"
#: Earlier than every log line; the container engine requires a time after the epoch.
_ANY_TIME = datetime.fromtimestamp(1, UTC)


class DiskFull(Fault):
    """Fill the disks of running brokers; heal frees them."""

    requires: ClassVar[InterfaceNames] = ("metadata", "processes", "volumes", "logs")
    fault: Literal["disk_full"] = "disk_full"
    proof: ClassVar[str] = "writing to the broker's disk fails: no space left on device"
    free: int = Field(default=0, ge=0, description="how many bytes are left free")

    @property
    def effects(self) -> Effects:
        return (Unreachable(log_dir=None, later=self.free > 0),)

    def problems(self, shape: Shape) -> Iterator[Problem]:
        if shape.disk is None:
            yield "fault", "disk_full needs brokers with a disk of a known size: set cluster.disk"

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> datetime:
        """Write a file of zeros until the disk is full, then shorten it by `free`.

        Returns the time from which the broker's log may report the failure.
        """
        since = datetime.now(UTC)
        for node in nodes:
            path = _path(cluster, node)
            _disk.run_script(
                cluster,
                node,
                f"head -c 100G /dev/zero > {path} 2>/dev/null || :\n"
                f"size=$(stat -c %s {path})\n"
                f"truncate -s $((size > {self.free} ? size - {self.free} : 0)) {path}",
            )
        return since

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: datetime) -> Evidence:
        """Require that a file larger than `free` does not fit."""
        for node in nodes:
            probe = f"{_path(cluster, node)}-probe"
            output = _disk.run_script(
                cluster,
                node,
                f"head -c {self.free + (1 << 20)} /dev/zero 2>&1 > {probe} || :\nrm -f {probe}",
            )
            if "No space left on device" not in output:
                raise FaultError(f"the disk of broker {node} is not full: {output.strip()}")
        return Evidence.joined(f"broker {node}: no space left on device" for node in nodes)

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: datetime | None) -> None:
        """Delete the file; restart a broker that has taken a log directory offline."""
        for node in nodes:
            path = _path(cluster, node)
            if _disk.run_script(cluster, node, f"ls {path} 2>/dev/null || :\nrm -f {path}*"):
                if cluster.logs.contains(node, _disk.DIRECTORY_FAILED, done or _ANY_TIME):
                    cluster.processes.terminate(node)  # it may be about to end
                cluster.processes.start(node)


def _path(cluster: Cluster, node: int) -> str:
    return f"{cluster.volumes.log_directories(node)[0].rpartition('/')[0]}/{_FILLER}"
