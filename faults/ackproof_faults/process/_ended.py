"""What faults share that end processes: in the end they are started again."""

from __future__ import annotations

from collections.abc import Sequence

from ackproof_faults.fault import Cluster, Fault


class Ended(Fault):
    """A fault that leaves its targets down; heal starts them, with their identity and data."""

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Start each target again."""
        for node in nodes:
            cluster.start(node)
