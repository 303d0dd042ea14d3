"""The whole disk is gone: the broker comes back with its id on an empty one, in a new identity.

Every log directory has a new id (KIP-858), by which the controller can tell that it was replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.disk import _disk
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster
from ackproof_faults.process._ended import Ended


class WipeVolume(Ended):
    """SIGKILL brokers and empty all of their log directories; heal starts them as new ones."""

    name: ClassVar[str] = "wipe_volume"
    occupies: ClassVar[str] = "process"
    fault: Literal["wipe_volume"] = "wipe_volume"
    proof: ClassVar[str] = "the broker is down, and none of its log directories holds a file"

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Kill every broker, then empty its disk."""
        _disk.kill_all(cluster, nodes)
        for node in nodes:
            for directory in cluster.log_directories(node):
                _disk.empty(cluster, node, directory)
            cluster.renew_identity(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that no log directory holds anything."""
        _disk.require_down(cluster, nodes)
        for node in nodes:
            directories = cluster.log_directories(node)
            if left := _disk.files(cluster, node, directories):
                raise FaultError(f"the disk of broker {node} still holds {left} files")
        return "; ".join(f"broker {node}: its disk is empty" for node in nodes)
