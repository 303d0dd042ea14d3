"""A rolling upgrade: one broker after another restarts with another Kafka version on its disk.

Each is back in every ISR before the next is stopped. Brokers of both versions serve meanwhile, with
the features of the older one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Fault


class Upgrade(Fault):
    """Restart the targets with another Kafka version, one after another."""

    name: ClassVar[str] = "upgrade"
    proof: ClassVar[str] = "the version that the broker says it runs"
    occupies: ClassVar[str] = "process"
    fault: Literal["upgrade"] = "upgrade"
    to: str = Field(
        pattern=r"^[0-9]+(\.[0-9]+){2,3}(-rc[0-9]+)?$",
        description="the Kafka version, not older than the cluster's",
        examples=["4.3.1"],
    )

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Upgrade one after another, each until it is in every ISR."""
        for node in nodes:
            cluster.operations().upgrade(node, self.to)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that each broker's log says it started this version."""
        for node in nodes:
            found = cluster.operations().version(node)
            if found != self.to:
                raise FaultError(f"broker {node} runs Kafka {found or '?'}, not {self.to}")
        return "; ".join(f"broker {node} runs Kafka {self.to}" for node in nodes)

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Do nothing: an upgrade is not undone."""

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int]) -> bool:
        """Whether each broker is unfenced and back in every ISR."""
        return all(cluster.in_sync(node) for node in nodes)
