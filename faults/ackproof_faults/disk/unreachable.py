"""A disk or a log directory of a running broker fails.

A broker that fails to write takes the log directory offline and informs the controller (KIP-112,
KIP-858). It uses the directory again only after a restart, so heal restarts the broker. A broker
whose only log directory is offline ends by itself.

A full disk (ENOSPC) needs a disk of a known size (`cluster.disk`), so that only the broker's own
disk is filled; heal deletes the file that fills it. A failed directory is moved away, and a file
gets its name: within five seconds (`replica.high.watermark.checkpoint.interval.ms`) the broker
fails to write a checkpoint there. Heal moves the directory back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal

from pydantic import Field

from ackproof_faults.disk import _disk
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Fault, Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.process._processes import require_running
from ackproof_model.effects import Effects, Unreachable

#: In a broker's log, followed by a directory that it takes offline
#: (`ReplicaManager.handleLogDirFailure`, KIP-112).
_DIRECTORY_FAILED = "Stopping serving replicas in dir"

_FILLER = "ackproof-filler"
#: Earlier than every log line; the container engine requires a time after the epoch.
_ANY_TIME = datetime.fromtimestamp(1, UTC)


class DiskFull(Fault):
    """Fill the disks of running brokers; heal frees them."""

    requires = ("metadata", "processes", "volumes", "logs")
    fault: Literal["disk_full"] = "disk_full"
    proof = "writing to the broker's disk fails: no space left on device"
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
                if cluster.logs.contains(node, _DIRECTORY_FAILED, done or _ANY_TIME):
                    cluster.processes.terminate(node)  # it may be about to end
                cluster.processes.start(node)


def _path(cluster: Cluster, node: int) -> str:
    return f"{cluster.volumes.log_directories(node)[0].rpartition('/')[0]}/{_FILLER}"


_WITHIN_S = 20.0
_AWAY = ".failed"


class FailLogDir(Fault):
    """Take one of several log directories from running brokers; heal gives it back."""

    requires = ("metadata", "processes", "volumes", "logs")
    fault: Literal["fail_log_dir"] = "fail_log_dir"
    proof = "the broker logs that it stops serving this directory, and still runs"
    log_dir: int = Field(default=2, ge=1, description="which log directory, counted from 1")

    @property
    def effects(self) -> Effects:
        return (Unreachable(log_dir=self.log_dir),)

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from _disk.log_dir_problems(self.log_dir, shape)
        if self.log_dir == 1:
            yield (
                "log_dir",
                "the first log directory holds the metadata log, without which a broker ends: "
                "name another one",
            )

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> datetime:
        """Move the directory away; return the time from which the broker may log the failure."""
        require_running(cluster, nodes)
        since = datetime.now(UTC)
        for node in nodes:
            path = self._path(cluster, node)
            _disk.run_script(cluster, node, f"mv {path} {path}{_AWAY}\ntouch {path}")
        return since

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: datetime) -> Evidence:
        proofs = []
        for node in nodes:
            path = self._path(cluster, node)
            line = f"{_DIRECTORY_FAILED} {path}"
            cluster.logs.await_line(node, line, since=done, within_s=_WITHIN_S)
            if cluster.processes.exit_status(node) is not None:
                raise FaultError(f"broker {node} has ended: more than one directory has failed")
            proofs.append(f"broker {node} stopped serving {path}")
        return Evidence.joined(proofs)

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: datetime | None) -> None:
        """Move the directory back and restart the broker, unless this has been done."""
        for node in nodes:
            path = self._path(cluster, node)
            moved = _disk.run_script(
                cluster,
                node,
                f"if [ -d {path}{_AWAY} ]; then rm -f {path}; mv {path}{_AWAY} {path}; "
                "echo moved; fi",
            )
            if moved:
                if cluster.processes.exit_status(node) is None:
                    cluster.processes.terminate(node)
                cluster.processes.start(node)

    def _path(self, cluster: Cluster, node: int) -> str:
        return cluster.volumes.log_directories(node)[self.log_dir - 1]
