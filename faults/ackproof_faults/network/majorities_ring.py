"""Every broker reaches a majority, and no two reach the same one (Jepsen's majorities ring).

The brokers form a ring by their ids; each receives packets only from its neighbours. It needs four
brokers: with three, every pair would lose one direction, and so every connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from ackproof_faults.conditions.targets import Target
from ackproof_faults.fault import Problem, Shape, untargeted
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.network._links import Cut, Links
from ackproof_model.effects import Cuts, Effects

_FEWEST = 4


class MajoritiesRing(Links):
    """Cut links so that every broker reaches a majority of its own."""

    fault: Literal["majorities_ring"] = "majorities_ring"
    target: Target = untargeted("all: the ring consists of every broker")
    effects: ClassVar[Effects] = (Cuts(channels=("replication",), some=True),)

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from super().problems(shape)
        if len(shape.brokers) < _FEWEST:
            yield "fault", f"a majorities ring needs {_FEWEST} brokers, not {len(shape.brokers)}"
        if self.target.role != "all":
            yield "target", "a ring consists of all brokers: leave the target out"

    def cuts(self, cluster: Cluster, nodes: Sequence[int]) -> Sequence[Cut]:
        ring = list(cluster.metadata.broker_ids())
        return [
            Cut(source=other, sink=broker)
            for index, broker in enumerate(ring)
            for other in sorted(set(ring) - majority(ring, index))
        ]


def majority(ring: Sequence[int], index: int) -> set[int]:
    """Return the majority that the member at `index` reaches, itself in the middle."""
    size = len(ring) // 2 + 1
    first = index - (size - 1) // 2
    return {ring[(first + step) % len(ring)] for step in range(size)}
