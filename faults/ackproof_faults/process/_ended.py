"""The base of faults that leave their targets' processes ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ackproof_faults.fault import Fault
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames


class Ended(Fault):
    """A fault that leaves its targets down; heal starts them with their identity and data."""

    requires: ClassVar[InterfaceNames] = ("metadata", "processes")
    occupies: ClassVar[str] = "process"

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: object) -> None:
        for node in nodes:
            cluster.processes.start(node)
