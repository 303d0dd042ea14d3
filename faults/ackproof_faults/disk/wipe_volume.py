"""The whole disk is lost: the broker starts again with its id and an empty disk.

Every log directory has a new id (KIP-858), so the controller can detect that it was replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.disk import _disk
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_faults.process._processes import Ended
from ackproof_model.effects import Effects, Ends


class WipeVolume(Ended):
    """SIGKILL brokers and empty all of their log directories; heal starts them as new ones."""

    requires: ClassVar[InterfaceNames] = _disk.REQUIRES
    takes_bytes: ClassVar[bool] = True
    past_tense: ClassVar[str] = "lost its disk"
    fault: Literal["wipe_volume"] = "wipe_volume"
    proof: ClassVar[str] = "the broker is down, and none of its log directories holds a file"
    effects: ClassVar[Effects] = (Ends(log="empty", renewed=True),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        _disk.kill_all(cluster, nodes)
        for node in nodes:
            for directory in cluster.volumes.log_directories(node):
                _disk.empty(cluster, node, directory)
            cluster.volumes.renew_identity(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        _disk.require_down(cluster, nodes)
        for node in nodes:
            directories = cluster.volumes.log_directories(node)
            if left := _disk.count_files(cluster, node, directories):
                raise FaultError(f"the disk of broker {node} still holds {left} files")
        return Evidence.joined(f"broker {node}: its disk is empty" for node in nodes)
