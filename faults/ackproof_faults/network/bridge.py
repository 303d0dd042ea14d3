"""Two halves that see each other only through one broker in the middle, the target.

The other brokers are dealt to the halves in the order of their ids. Controllers and clients see
everybody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Shape
from ackproof_faults.network._links import Cut, Links, both_ways


class Bridge(Links):
    """Cut the other brokers into two halves; the target, one broker, sees both."""

    name: ClassVar[str] = "bridge"
    fault: Literal["bridge"] = "bridge"

    def problems(self, shape: Shape) -> Iterator[tuple[str, str]]:
        """Yield a cluster too small to have two sides, and a target that is several."""
        if len(shape.brokers) < 3:
            yield "fault", f"a bridge needs 3 brokers or more, not {len(shape.brokers)}"
        if self.target.role == "all" or len(self.target.brokers) > 1:
            yield "target", "the bridge is one broker"

    def cuts(self, cluster: Cluster, nodes: Sequence[int]) -> Sequence[Cut]:
        """Return both ways of every link from one half to the other."""
        if len(nodes) != 1:
            raise FaultError(f"the bridge is one broker, not {list(nodes)}")
        rest = [broker for broker in cluster.broker_ids() if broker not in nodes]
        half = len(rest) // 2
        return [
            cut for one in rest[:half] for other in rest[half:] for cut in both_ways(one, other)
        ]
