"""A link that comes and goes: as with a loose cable, connections are made and lost again.

The rules are put in and taken out in turn by a container of ours beside each target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster
from ackproof_faults.network import _links
from ackproof_faults.network.partition import Partition

_BESIDE = "flapping"


class Flapping(Partition):
    """Cut the targets off from their peers and join them again, in turn."""

    name: ClassVar[str] = "flapping"
    fault: Literal["flapping"] = "flapping"  # type: ignore[assignment]
    proof: ClassVar[str] = "the rules beside the target are seen to be there, and not to be there"
    up: Duration = Field(default=1.0, gt=0, description="so long the link works each time")
    down: Duration = Field(default=1.0, gt=0, description="so long it is cut each time")

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Start one container for each target, which cuts at once."""
        wanted = _links.rules(cluster, self.cuts(cluster, nodes), _links.VERDICTS[self.how])
        for node in nodes:
            if node not in wanted:
                raise FaultError(f"node {node} has no link to cut, or is down")
            text = _links.ruleset(self.table, wanted[node])
            cluster.start_beside(
                node,
                _BESIDE,
                f"while :; do\nnft -f - <<'RULES'\n{text}\nRULES\nsleep {self.down:g}\n"
                f"nft delete table {self.table}\nsleep {self.up:g}\ndone",
            )

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Watch one period beside each target: the rules must come and go."""
        watch = (
            f"for i in $(seq {int((self.up + self.down) * 10) + 10}); do "
            f"nft list table {self.table} >/dev/null 2>&1 && echo cut || echo joined; sleep 0.1; "
            "done | sort -u"
        )
        for node, result in _links.each(cluster, dict.fromkeys(nodes, watch)).items():
            if result.output.split() != ["cut", "joined"]:
                raise FaultError(f"the link of node {node} is always {result.output.strip()}")
        return "; ".join(f"node {node}: cut and joined in turn" for node in nodes)

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """End the containers, then remove the rules that the last turn left."""
        for node in nodes:
            cluster.end_beside(node, _BESIDE)
        super().heal(cluster, nodes)
