"""Files of a stopped broker are damaged, old, or gone.

Offset indexes are derived from the log, so that no record is lost with them. After an unclean
shutdown the broker checks them (`LogLoader`, `OffsetIndex.sanityCheck`) and must rebuild damaged
ones.

Checkpoint files are older than the logs after a restored backup, or a file system that rolled back.
After an unclean shutdown a broker checks its logs from their ``recovery_points`` on; logs are
replicated up to their ``high_watermarks``. Old values must not make a broker lose a record: it
checks more than necessary, and gets the high watermark from the leader again.

A whole disk, one of several disks, or the files of some partitions are lost. An empty log directory
gets a new id (KIP-858), so that the controller can detect that it was replaced, and the broker
copies its replicas again. A file system error or a mistake deletes directories of partitions: the
broker starts again with its identity and its other partitions, but without data of partitions in
whose ISR it is.
"""

from __future__ import annotations

import shlex
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.disk import _disk
from ackproof_faults.disk._disk import DamagedDisk, Partitions, partition_problems
from ackproof_faults.evidence import FaultError
from ackproof_faults.fault import Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_model.effects import Effects, Ends, SetsBack


class DamagedIndex(DamagedDisk):
    """SIGKILL brokers and damage the offset index of each of their segments."""

    explained = True
    traceless = True
    partitions: Partitions = ()
    effects: ClassVar[Effects] = (Ends(),)

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from partition_problems(self.partitions, shape)

    @abstractmethod
    def command(self, path: str) -> str:
        """Return the command that damages the index at this quoted path."""

    @abstractmethod
    def damaged(self, size: int | None) -> bool:
        """Whether an index of this size in bytes (None: missing) is damaged."""

    def damage(self, cluster: Cluster, node: int) -> None:
        paths = self._indexes(cluster, node)
        script = "\n".join(self.command(shlex.quote(path)) for path in paths)
        _disk.run_script(cluster, node, script)

    def require_damage(self, cluster: Cluster, node: int) -> str:
        paths = self._indexes(cluster, node)
        listed = _disk.run_script(
            cluster, node, f"stat -c '%n %s' {shlex.join(paths)} 2>/dev/null || :"
        )
        sizes = {path: int(size) for path, size in map(str.split, listed.splitlines())}
        whole = [path for path in paths if not self.damaged(sizes.get(path))]
        if whole:
            raise FaultError(f"broker {node} still has {whole[0]}")
        return f"broker {node}: {len(paths)} indexes"

    def _indexes(self, cluster: Cluster, node: int) -> list[str]:
        return [
            f"{segment.path.removesuffix('.log')}.index"
            for replica in _disk.select_replicas(cluster, node, self.partitions)
            for segment in replica.segments
        ]


class DeleteIndex(DamagedIndex):
    """SIGKILL brokers and delete the offset index of each segment; heal starts them again."""

    fault: Literal["delete_index"] = "delete_index"
    proof = "the broker is down, and no segment on its disk has an offset index"

    def command(self, path: str) -> str:
        return f"rm -f {path}"

    def damaged(self, size: int | None) -> bool:
        return size is None


#: Size of an entry of an offset index, bytes; `OffsetIndex.sanityCheck` requires a multiple of it.
_ENTRY = 8
_TRUNCATED_SIZE = 5


class TruncateIndex(DamagedIndex):
    """SIGKILL brokers and cut each segment's offset index inside an entry; heal starts them."""

    fault: Literal["truncate_index"] = "truncate_index"
    proof = "the broker is down, and every offset index ends inside an entry"

    def command(self, path: str) -> str:
        return f"truncate -s {_TRUNCATED_SIZE} {path}"

    def damaged(self, size: int | None) -> bool:
        return size is not None and size % _ENTRY != 0


_FILES = {"recovery_points": _disk.RECOVERY_POINTS, "high_watermarks": _disk.HIGH_WATERMARKS}


class OldCheckpoint(_disk.DamagedDisk):
    """SIGKILL brokers and set back their checkpoint files; heal starts them again."""

    traceless = True
    fault: Literal["old_checkpoint"] = "old_checkpoint"
    proof = "the broker is down, and its checkpoint files name no offset above `offset`"
    files: tuple[Literal["recovery_points", "high_watermarks"], ...] = Field(
        default=("recovery_points", "high_watermarks"),
        min_length=1,
        description="which of the checkpoint files",
    )
    offset: int = Field(default=0, ge=0, description="the offset to which they are set back")

    @property
    def effects(self) -> Effects:
        return (
            Ends(),
            SetsBack(
                high_watermarks="high_watermarks" in self.files,
                recovery_points="recovery_points" in self.files,
            ),
        )

    def damage(self, cluster: Cluster, node: int) -> None:
        for directory, file in self._files(cluster, node):
            offsets = _disk.checkpoints(cluster, node, directory, file)
            old = {name: min(offset, self.offset) for name, offset in offsets.items()}
            text = shlex.quote(_disk.checkpoint_text(old))
            _disk.run_script(cluster, node, f"printf %s {text} > {directory}/{file}")

    def require_damage(self, cluster: Cluster, node: int) -> str:
        """Require that the files have a partition, and no higher offset."""
        partitions = 0
        for directory, file in self._files(cluster, node):
            offsets = _disk.checkpoints(cluster, node, directory, file)
            high = {name: offset for name, offset in offsets.items() if offset > self.offset}
            if high:
                raise FaultError(f"{file} of broker {node} has {high}")
            partitions += len(offsets)
        if not partitions:
            raise FaultError(f"the checkpoint files of broker {node} name no partition")
        return f"broker {node}: {', '.join(self.files)} at {self.offset} or below"

    def _files(self, cluster: Cluster, node: int) -> list[tuple[str, str]]:
        """Return (log directory, file name) of each checkpoint file."""
        return [
            (directory, _FILES[file])
            for directory in cluster.volumes.log_directories(node)
            for file in self.files
        ]


class WipeVolume(DamagedDisk):
    """SIGKILL nodes and empty all of their log directories; heal starts them as new ones."""

    takes_bytes = True
    past_tense = "lost its disk"
    fault: Literal["wipe_volume"] = "wipe_volume"
    proof = "the broker is down, and none of its log directories holds a file"
    effects: ClassVar[Effects] = (Ends(log="empty", renewed=True),)

    def damage(self, cluster: Cluster, node: int) -> None:
        _empty(cluster, node, cluster.volumes.log_directories(node))

    def require_damage(self, cluster: Cluster, node: int) -> str:
        if left := _count_files(cluster, node, cluster.volumes.log_directories(node)):
            raise FaultError(f"the disk of broker {node} still holds {left} files")
        return f"broker {node}: its disk is empty"


class ReplaceDisk(DamagedDisk):
    """SIGKILL brokers and empty one of their log directories; heal starts them again."""

    takes_bytes = True
    past_tense = "lost one of its disks"
    fault: Literal["replace_disk"] = "replace_disk"
    proof = (
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

    takes_bytes = True
    traceless = True
    past_tense = "lost the partition's files"
    fault: Literal["wipe_partition"] = "wipe_partition"
    proof = "the broker is down, and its disk has no directory of the partitions"
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
