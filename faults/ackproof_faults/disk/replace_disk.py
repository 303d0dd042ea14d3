"""One of several disks is replaced by an empty one; the others keep their data.

The broker formats it with a new directory id (KIP-858) and copies its replicas again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.disk import _disk
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_faults.process._processes import Ended
from ackproof_model.effects import Effects, Ends


class ReplaceDisk(Ended):
    """SIGKILL brokers and empty one of their log directories; heal starts them again."""

    requires: ClassVar[InterfaceNames] = _disk.REQUIRES
    takes_bytes: ClassVar[bool] = True
    past_tense: ClassVar[str] = "lost one of its disks"
    fault: Literal["replace_disk"] = "replace_disk"
    proof: ClassVar[str] = (
        "the broker is down, its log directory holds no file, and its other directories hold theirs"
    )
    log_dir: int = Field(default=2, ge=1, description="which log directory, counted from 1")

    @property
    def effects(self) -> Effects:
        return (Ends(log="empty", log_dir=self.log_dir, renewed=True),)

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from _disk.log_dir_problems(self.log_dir, shape)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        _disk.kill_all(cluster, nodes)
        for node in nodes:
            directories = cluster.volumes.log_directories(node)
            _disk.empty(cluster, node, directories[self.log_dir - 1])
            cluster.volumes.renew_identity(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        _disk.require_down(cluster, nodes)
        proofs = []
        for node in nodes:
            directories = list(cluster.volumes.log_directories(node))
            replaced = directories.pop(self.log_dir - 1)
            if left := _disk.count_files(cluster, node, [replaced]):
                raise FaultError(f"{replaced} of broker {node} still holds {left} files")
            files = _disk.count_files(cluster, node, directories)
            if not files:
                raise FaultError(f"broker {node} has lost its other log directories, too")
            proofs.append(f"broker {node}: {replaced} is empty, the others hold {files} files")
        return Evidence.joined(proofs)
