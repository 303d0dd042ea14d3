"""Every broker sees a majority, and no two see the same one (Jepsen's majorities ring).

The brokers stand in a ring by their ids; each hears only from those next to it. With three, every
pair would lose one direction and so every connection: it takes four.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.targets import Target, TargetSpec
from ackproof_faults.fault import Cluster, Shape
from ackproof_faults.network._links import Cut, Links

_FEWEST = 4


class MajoritiesRing(Links):
    """Let every broker reach only those of a majority of its own."""

    name: ClassVar[str] = "majorities_ring"
    fault: Literal["majorities_ring"] = "majorities_ring"
    target: Target = Field(default=TargetSpec(role="all"), description="all: every broker is hit")

    def problems(self, shape: Shape) -> Iterator[tuple[str, str]]:
        """Yield a ring that is too small, and a target that is not all brokers."""
        if len(shape.brokers) < _FEWEST:
            yield "fault", f"a majorities ring needs {_FEWEST} brokers, not {len(shape.brokers)}"
        if self.target.role != "all":
            yield "target", "a ring is made of all brokers: leave the target out"

    def cuts(self, cluster: Cluster, nodes: Sequence[int]) -> Sequence[Cut]:
        """Return for each broker what it does not hear: all but its majority."""
        ring = list(cluster.broker_ids())
        return [
            Cut(source=other, sink=broker)
            for place, broker in enumerate(ring)
            for other in sorted(set(ring) - majority(ring, place))
        ]


def majority(ring: Sequence[int], place: int) -> set[int]:
    """Return the majority that the member at `place` of the ring sees, itself in the middle."""
    size = len(ring) // 2 + 1
    first = place - (size - 1) // 2
    return {ring[(first + step) % len(ring)] for step in range(size)}
