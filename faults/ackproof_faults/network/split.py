"""The cluster is split in two: the targets on one side, all other brokers on the other.

The controllers are on the side given by ``controllers``, or reach both. Clients reach both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.network._links import Cut, Links, both_ways
from ackproof_model.effects import Cuts, Effects


class Split(Links):
    """Cut the targets off from all other brokers, and optionally from the controllers."""

    fault: Literal["split"] = "split"
    controllers: Literal["targets", "others", "both"] = Field(
        default="others", description="which side the controllers stay connected with"
    )

    @property
    def effects(self) -> Effects:
        between = Cuts(channels=("replication",))
        match self.controllers:
            case "both":
                return (between,)
            case "others":
                return (between, Cuts(channels=("controllers",)))
            case "targets":
                return (between, Cuts(channels=("controllers",), nodes="others"))

    def cuts(self, cluster: Cluster, nodes: Sequence[int]) -> Sequence[Cut]:
        targets, others = set(nodes), set(cluster.metadata.broker_ids()) - set(nodes)
        controllers = set(cluster.controllers.ids()) - targets - others
        targets |= controllers if self.controllers == "targets" else set()
        others |= controllers if self.controllers == "others" else set()
        return [
            cut
            for one in sorted(targets)
            for other in sorted(others)
            for cut in both_ways(one, other)
        ]
