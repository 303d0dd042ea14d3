"""What damage to a log's indexes has in common: which files, and what the broker says of it.

Indexes are derived from the log and checked when it is loaded after an unclean shutdown
(`LogLoader`, `OffsetIndex.sanityCheck`): the broker must find the damage and build them anew.
"""

from __future__ import annotations

import shlex
from abc import abstractmethod
from collections.abc import Iterator, Sequence

from ackproof_faults.disk import _disk
from ackproof_faults.disk._partitions import Partitions, unknown
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Shape
from ackproof_faults.process._ended import Ended


class DamagedIndex(Ended):
    """SIGKILL brokers and damage the offset index of each of their segments."""

    partitions: Partitions

    def problems(self, shape: Shape) -> Iterator[tuple[str, str]]:
        """Yield partitions that are not there."""
        yield from unknown(self.partitions, shape)

    @abstractmethod
    def damage(self, path: str) -> str:
        """Return the command that damages the index at this quoted path."""

    @abstractmethod
    def damaged(self, size: int | None) -> bool:
        """Whether an index of this size (None: there is none) is a damaged one."""

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Kill every broker, then damage the indexes."""
        _disk.kill_all(cluster, nodes)
        for node in nodes:
            paths = self._indexes(cluster, node)
            _disk.at_disk(
                cluster, node, "\n".join(self.damage(shlex.quote(path)) for path in paths)
            )

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that every segment's index is damaged."""
        _disk.require_down(cluster, nodes)
        proofs = []
        for node in nodes:
            paths = self._indexes(cluster, node)
            listed = _disk.at_disk(
                cluster, node, f"stat -c '%n %s' {shlex.join(paths)} 2>/dev/null || :"
            )
            sizes = {path: int(size) for path, size in map(str.split, listed.splitlines())}
            whole = [path for path in paths if not self.damaged(sizes.get(path))]
            if whole:
                raise FaultError(f"broker {node} still has {whole[0]}")
            proofs.append(f"broker {node}: {len(paths)} indexes")
        return "; ".join(proofs)

    def _indexes(self, cluster: Cluster, node: int) -> list[str]:
        return [
            f"{segment.path.removesuffix('.log')}.index"
            for replica in _disk.chosen(cluster, node, self.partitions)
            for segment in replica.segments
        ]
