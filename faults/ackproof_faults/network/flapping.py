"""A link is cut and restored repeatedly, as with a loose cable.

A container in each target's network namespace installs and removes the rules in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.network._links import VERDICTS, rules
from ackproof_faults.network._nftables import ruleset, run_at_each
from ackproof_faults.network.partition import Partition

_SCRIPT = "flapping"


class Flapping(Partition):
    """Cut the targets off from their peers and reconnect them, in turn."""

    repeated: ClassVar[bool] = True
    fault: Literal["flapping"] = "flapping"  # type: ignore[assignment]
    proof: ClassVar[str] = "the target's rules are observed to be there, and not to be there"
    up: Duration = Field(default=1.0, gt=0, description="how long the link works each time")
    down: Duration = Field(default=1.0, gt=0, description="how long it is cut each time")

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Start the script of each target; it begins with a cut."""
        own = rules(cluster, self.cuts(cluster, nodes), VERDICTS[self.how])
        for node in nodes:
            if node not in own:
                raise FaultError(f"node {node} has no link to cut, or is down")
            cluster.network.start(
                node,
                _SCRIPT,
                f"while :; do\nnft -f - <<'RULES'\n{ruleset(self.table, own[node])}\nRULES\n"
                f"sleep {self.down:g}\nnft delete table {self.table}\nsleep {self.up:g}\ndone",
            )

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        """Require that the rules of each target appear and disappear within one period."""
        watch = (
            f"for i in $(seq {int((self.up + self.down) * 10) + 10}); do "
            f"nft list table {self.table} >/dev/null 2>&1 && echo cut || echo joined; sleep 0.1; "
            "done | sort -u"
        )
        for node, result in run_at_each(cluster, dict.fromkeys(nodes, watch)).items():
            if result.output.split() != ["cut", "joined"]:
                raise FaultError(f"the link of node {node} is always {result.output.strip()}")
        return Evidence.joined(f"node {node}: cut and joined in turn" for node in nodes)

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None:
        for node in nodes:
            cluster.network.end(node, _SCRIPT)
        super().heal(cluster, nodes, done)
