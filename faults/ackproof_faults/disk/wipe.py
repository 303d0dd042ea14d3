"""A whole disk, one of several disks, or the files of some partitions are lost.

An empty log directory gets a new id (KIP-858), so that the controller can detect that it was
replaced, and the broker copies its replicas again. Directories of partitions are deleted by a file
system error or by mistake: the broker starts again with its identity and its other partitions, but
without data of partitions in whose ISR it is.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.disk import _disk
from ackproof_faults.disk._disk import DamagedDisk, Partitions, partition_problems
from ackproof_faults.evidence import FaultError
from ackproof_faults.fault import Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_model.effects import Effects, Ends


class WipeVolume(DamagedDisk):
    """SIGKILL nodes and empty all of their log directories; heal starts them as new ones."""

    takes_bytes: ClassVar[bool] = True
    past_tense: ClassVar[str] = "lost its disk"
    fault: Literal["wipe_volume"] = "wipe_volume"
    proof: ClassVar[str] = "the broker is down, and none of its log directories holds a file"
    effects: ClassVar[Effects] = (Ends(log="empty", renewed=True),)

    def damage(self, cluster: Cluster, node: int) -> None:
        _empty(cluster, node, cluster.volumes.log_directories(node))

    def require_damage(self, cluster: Cluster, node: int) -> str:
        if left := _count_files(cluster, node, cluster.volumes.log_directories(node)):
            raise FaultError(f"the disk of broker {node} still holds {left} files")
        return f"broker {node}: its disk is empty"


class ReplaceDisk(DamagedDisk):
    """SIGKILL brokers and empty one of their log directories; heal starts them again."""

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
        if self.target.of_controllers:
            yield "target", f"'{self.target}' has one log directory: use wipe_volume"

    def damage(self, cluster: Cluster, node: int) -> None:
        _empty(cluster, node, [cluster.volumes.log_directories(node)[self.log_dir - 1]])

    def require_damage(self, cluster: Cluster, node: int) -> str:
        directories = list(cluster.volumes.log_directories(node))
        replaced = directories.pop(self.log_dir - 1)
        if left := _count_files(cluster, node, [replaced]):
            raise FaultError(f"{replaced} of broker {node} still holds {left} files")
        files = _count_files(cluster, node, directories)
        if not files:
            raise FaultError(f"broker {node} has lost its other log directories, too")
        return f"broker {node}: {replaced} is empty, the others hold {files} files"


class WipePartition(DamagedDisk):
    """SIGKILL brokers and delete partitions' directories; heal starts them again."""

    takes_bytes: ClassVar[bool] = True
    traceless: ClassVar[bool] = True
    past_tense: ClassVar[str] = "lost the partition's files"
    fault: Literal["wipe_partition"] = "wipe_partition"
    proof: ClassVar[str] = "the broker is down, and its disk has no directory of the partitions"
    partitions: Partitions = ()

    @property
    def effects(self) -> Effects:
        return (Ends(log="empty", partitions=self.partitions),)

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from partition_problems(self.partitions, shape)

    def damage(self, cluster: Cluster, node: int) -> None:
        replicas = _disk.select_replicas(cluster, node, self.partitions)
        paths = shlex.join(replica.directory for replica in replicas)
        _disk.run_script(cluster, node, f"rm -r {paths}")

    def require_damage(self, cluster: Cluster, node: int) -> str:
        left = {replica.name for replica in _disk.replicas(cluster, node)}
        if hit := left & set(self.partitions) if self.partitions else left:
            raise FaultError(f"broker {node} still has {', '.join(sorted(hit))}")
        return f"broker {node}: no directory of {', '.join(self.partitions) or 'any partition'}"


def _empty(cluster: Cluster, broker: int, directories: Sequence[str]) -> None:
    _disk.run_script(cluster, broker, f"find {' '.join(directories)} -mindepth 1 -delete")
    cluster.volumes.renew_identity(broker)


def _count_files(cluster: Cluster, broker: int, directories: Sequence[str]) -> int:
    found = _disk.run_script(cluster, broker, f"find {' '.join(directories)} -type f | wc -l")
    return int(found)
