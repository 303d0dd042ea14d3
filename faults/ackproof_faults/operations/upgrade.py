"""A rolling upgrade: one broker after another restarts with another Kafka version on its disk.

Each broker is back in every ISR before the next is stopped. Meanwhile brokers of both versions
serve, with the features of the older version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.operations._operation import Operation
from ackproof_model.effects import Effects, Ends, Upgrades


class Upgrade(Operation):
    """Restart the targets with another Kafka version, one after another."""

    occupies: ClassVar[str] = "process"
    fault: Literal["upgrade"] = "upgrade"
    proof: ClassVar[str] = "the version that the broker logs at its start"
    to: str = Field(
        pattern=r"^[0-9]+(\.[0-9]+){2,3}(-rc[0-9]+)?$",
        description="the Kafka version, not older than the cluster's",
        examples=["4.3.1"],
    )

    @property
    def effects(self) -> Effects:
        return (Ends(clean=True, one_by_one="in_sync"), Upgrades(version=self.to))

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        for node in nodes:
            cluster.operations.upgrade(node, self.to)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        for node in nodes:
            version = cluster.operations.version(node)
            if version != self.to:
                raise FaultError(f"broker {node} runs Kafka {version or '?'}, not {self.to}")
        return Evidence.joined(f"broker {node} runs Kafka {self.to}" for node in nodes)
