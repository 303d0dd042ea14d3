"""The cluster falls in two: the targets on one side, all other brokers on the other.

The controllers stand on the side that ``controllers`` names, or still see both. Clients do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.fault import Cluster
from ackproof_faults.network._links import Cut, Links, both_ways


class Split(Links):
    """Cut the targets off from all brokers that are no targets, and maybe from the controllers."""

    name: ClassVar[str] = "split"
    fault: Literal["split"] = "split"
    controllers: Literal["targets", "others", "both"] = Field(
        default="others", description="with whom the controllers stay connected"
    )

    def cuts(self, cluster: Cluster, nodes: Sequence[int]) -> Sequence[Cut]:
        """Return both ways of every link between the two sides."""
        ours, theirs = set(nodes), set(cluster.broker_ids()) - set(nodes)
        apart = set(cluster.controller_ids()) - ours - theirs
        ours |= apart if self.controllers == "targets" else set()
        theirs |= apart if self.controllers == "others" else set()
        return [
            cut for one in sorted(ours) for other in sorted(theirs) for cut in both_ways(one, other)
        ]
