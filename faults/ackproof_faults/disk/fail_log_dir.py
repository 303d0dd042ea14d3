"""One of several log directories of a running broker fails.

The fault moves the directory away and creates a file with its name. Within five seconds
(`replica.high.watermark.checkpoint.interval.ms`) the broker fails to write a checkpoint there,
takes the directory offline and informs the controller (KIP-112, KIP-858). A broker uses the
directory again only after a restart, so heal moves it back and restarts the broker.
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
from ackproof_faults.process._processes import require_running
from ackproof_model.effects import Effects, Unreachable

_WITHIN_S = 20.0
_AWAY = ".failed"


class FailLogDir(Fault):
    """Take one of several log directories from running brokers; heal gives it back."""

    requires: ClassVar[InterfaceNames] = ("metadata", "processes", "volumes", "logs")
    fault: Literal["fail_log_dir"] = "fail_log_dir"
    proof: ClassVar[str] = "the broker logs that it stops serving this directory, and still runs"
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
            line = f"{_disk.DIRECTORY_FAILED} {path}"
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
