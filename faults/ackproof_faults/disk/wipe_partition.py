"""Partitions' directories are gone: a file system lost them, or somebody deleted the wrong one.

The broker comes back with its identity and its other partitions, and with nothing where it was
told that it is in sync.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from ackproof_faults.disk import _disk
from ackproof_faults.disk._partitions import Partitions, unknown
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Shape
from ackproof_faults.process._ended import Ended


class WipePartition(Ended):
    """SIGKILL brokers and delete partitions' directories; heal starts them again."""

    name: ClassVar[str] = "wipe_partition"
    occupies: ClassVar[str] = "process"
    fault: Literal["wipe_partition"] = "wipe_partition"
    proof: ClassVar[str] = "the broker is down, and its disk has no directory of the partitions"
    partitions: Partitions

    def problems(self, shape: Shape) -> Iterator[tuple[str, str]]:
        """Yield partitions that are not there."""
        yield from unknown(self.partitions, shape)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Kill every broker, then delete the directories."""
        _disk.kill_all(cluster, nodes)
        for node in nodes:
            held = _disk.chosen(cluster, node, self.partitions)
            _disk.at_disk(
                cluster, node, f"rm -r {shlex.join(replica.directory for replica in held)}"
            )

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that no directory of the partitions is left."""
        _disk.require_down(cluster, nodes)
        for node in nodes:
            left = {replica.name for replica in _disk.replicas(cluster, node)}
            if hit := left & set(self.partitions) if self.partitions else left:
                raise FaultError(f"broker {node} still has {', '.join(sorted(hit))}")
        what = ", ".join(self.partitions) or "any partition"
        return "; ".join(f"broker {node}: no directory of {what}" for node in nodes)
