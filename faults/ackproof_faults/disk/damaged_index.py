"""The base of faults that damage the offset indexes of a log.

Indexes are derived from the log, so no record is lost. After an unclean shutdown the broker checks
them (`LogLoader`, `OffsetIndex.sanityCheck`) and must rebuild damaged indexes.
"""

from __future__ import annotations

import shlex
from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Literal

from ackproof_faults.disk import _disk
from ackproof_faults.disk._disk import DamagedDisk, Partitions, partition_problems
from ackproof_faults.evidence import FaultError
from ackproof_faults.fault import Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_model.effects import Effects, Ends


class DamagedIndex(DamagedDisk):
    """SIGKILL brokers and damage the offset index of each of their segments."""

    explained: ClassVar[bool] = True
    traceless: ClassVar[bool] = True
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
    proof: ClassVar[str] = "the broker is down, and no segment on its disk has an offset index"

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
    proof: ClassVar[str] = "the broker is down, and every offset index ends inside an entry"

    def command(self, path: str) -> str:
        return f"truncate -s {_TRUNCATED_SIZE} {path}"

    def damaged(self, size: int | None) -> bool:
        return size is not None and size % _ENTRY != 0
