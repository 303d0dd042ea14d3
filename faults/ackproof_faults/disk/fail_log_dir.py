"""One of several log directories fails: its file system is gone from under the running broker.

The directory is moved away and a file stands in its place. Within five seconds (the interval of
`replica.high.watermark.checkpoint.interval.ms`) the broker fails to write a checkpoint there, takes
the directory offline and tells the controller (KIP-112, KIP-858). Kafka takes a directory online
again only when it starts, so heal moves it back and restarts the broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import ClassVar, Literal

from pydantic import Field, PrivateAttr

from ackproof_faults.disk import _disk
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Fault, Shape

_WITHIN_S = 20.0
_AWAY = ".failed"


class FailLogDir(Fault):
    """Take one of several log directories from running brokers; heal gives it back."""

    name: ClassVar[str] = "fail_log_dir"
    fault: Literal["fail_log_dir"] = "fail_log_dir"
    proof: ClassVar[str] = "the broker logs that it stops serving this directory, and runs on"
    log_dir: int = Field(default=2, ge=1, description="which log directory, counted from 1")

    _since: datetime = PrivateAttr(default=datetime.min.replace(tzinfo=UTC))

    def problems(self, shape: Shape) -> Iterator[tuple[str, str]]:
        """Yield a directory that is not there, or is the only one, or holds the metadata log."""
        yield from _disk.no_such_directory(self.log_dir, shape)
        if self.log_dir == 1:
            yield (
                "log_dir",
                "the first log directory holds the metadata log, without which a broker ends: "
                "name another one",
            )

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Move the directory away."""
        self._since = datetime.now(UTC)
        for node in nodes:
            if cluster.exit_status(node) is not None:
                raise FaultError(f"broker {node} is down: none of its directories is in use")
            directory = self._directory(cluster, node)
            _disk.at_disk(cluster, node, f"mv {directory} {directory}{_AWAY}\ntouch {directory}")

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Wait until each broker says that it no longer serves the directory; it must run on."""
        proofs = []
        for node in nodes:
            directory = self._directory(cluster, node)
            cluster.await_logged(
                node,
                f"{_disk.DIRECTORY_FAILED} {directory}",
                since=self._since,
                within_s=_WITHIN_S,
            )
            if cluster.exit_status(node) is not None:
                raise FaultError(f"broker {node} has ended: more than one directory has failed")
            proofs.append(f"broker {node} stopped serving {directory}")
        return "; ".join(proofs)

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Move the directory back and restart the broker; twice is a no-op."""
        for node in nodes:
            directory = self._directory(cluster, node)
            moved = _disk.at_disk(
                cluster,
                node,
                f"if [ -d {directory}{_AWAY} ]; then rm -f {directory}; "
                f"mv {directory}{_AWAY} {directory}; echo moved; fi",
            )
            if moved:
                if cluster.exit_status(node) is None:
                    cluster.terminate(node)
                cluster.start(node)

    def _directory(self, cluster: Cluster, node: int) -> str:
        return cluster.log_directories(node)[self.log_dir - 1]
