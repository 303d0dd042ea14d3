"""Two halves that are connected only through one broker, the target.

The other brokers are assigned to the halves in the order of their ids. Controllers and clients
reach all brokers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from ackproof_faults.evidence import FaultError
from ackproof_faults.fault import Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.network._links import Cut, Links, both_ways
from ackproof_model.effects import Cuts, Effects


class Bridge(Links):
    """Cut the other brokers into two halves; the target, one broker, reaches both."""

    fault: Literal["bridge"] = "bridge"
    effects: ClassVar[Effects] = (Cuts(channels=("replication",), some=True, nodes="others"),)

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from super().problems(shape)
        if len(shape.brokers) < 3:
            yield "fault", f"a bridge needs 3 brokers or more, not {len(shape.brokers)}"
        if self.target.role == "all" or len(self.target.brokers) > 1:
            yield "target", "the target of a bridge is one broker"

    def cuts(self, cluster: Cluster, nodes: Sequence[int]) -> Sequence[Cut]:
        if len(nodes) != 1:
            raise FaultError(f"the target of a bridge is one broker, not {list(nodes)}")
        rest = [broker for broker in cluster.metadata.broker_ids() if broker not in nodes]
        half = len(rest) // 2
        return [
            cut for one in rest[:half] for other in rest[half:] for cut in both_ways(one, other)
        ]
