"""One of several disks is replaced by an empty one; the others keep what they have.

The broker formats it with a new directory id (KIP-858) and copies its replicas anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.disk import _disk
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Shape
from ackproof_faults.process._ended import Ended


class ReplaceDisk(Ended):
    """SIGKILL brokers and empty one of their log directories; heal starts them again."""

    name: ClassVar[str] = "replace_disk"
    occupies: ClassVar[str] = "process"
    fault: Literal["replace_disk"] = "replace_disk"
    proof: ClassVar[str] = (
        "the broker is down, its log directory holds no file, and its others hold theirs"
    )
    log_dir: int = Field(default=2, ge=1, description="which log directory, counted from 1")

    def problems(self, shape: Shape) -> Iterator[tuple[str, str]]:
        """Yield a directory that is not there, or is the only one."""
        yield from _disk.no_such_directory(self.log_dir, shape)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Kill every broker, then empty its directory."""
        _disk.kill_all(cluster, nodes)
        for node in nodes:
            _disk.empty(cluster, node, cluster.log_directories(node)[self.log_dir - 1])
            cluster.renew_identity(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require an empty directory beside others that are not."""
        _disk.require_down(cluster, nodes)
        proofs = []
        for node in nodes:
            directories = list(cluster.log_directories(node))
            replaced = directories.pop(self.log_dir - 1)
            if left := _disk.files(cluster, node, [replaced]):
                raise FaultError(f"{replaced} of broker {node} still holds {left} files")
            kept = _disk.files(cluster, node, directories)
            if not kept:
                raise FaultError(f"broker {node} has lost its other log directories, too")
            proofs.append(f"broker {node}: {replaced} is empty, the others hold {kept} files")
        return "; ".join(proofs)
