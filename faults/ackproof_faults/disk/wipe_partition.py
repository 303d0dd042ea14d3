"""Partitions' directories are deleted, by a file system error or by mistake.

The broker starts again with its identity and its other partitions, but without data of partitions
in whose ISR it is.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from ackproof_faults.disk import _disk
from ackproof_faults.disk._disk import Partitions, partition_problems
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_faults.process._processes import Ended
from ackproof_model.effects import Effects, Ends


class WipePartition(Ended):
    """SIGKILL brokers and delete partitions' directories; heal starts them again."""

    requires: ClassVar[InterfaceNames] = _disk.REQUIRES
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

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        _disk.kill_all(cluster, nodes)
        for node in nodes:
            replicas = _disk.select_replicas(cluster, node, self.partitions)
            paths = shlex.join(replica.directory for replica in replicas)
            _disk.run_script(cluster, node, f"rm -r {paths}")

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        _disk.require_down(cluster, nodes)
        for node in nodes:
            left = {replica.name for replica in _disk.replicas(cluster, node)}
            if hit := left & set(self.partitions) if self.partitions else left:
                raise FaultError(f"broker {node} still has {', '.join(sorted(hit))}")
        what = ", ".join(self.partitions) or "any partition"
        return Evidence.joined(f"broker {node}: no directory of {what}" for node in nodes)
