"""A rolling upgrade: one broker after another restarts with another Kafka version on its disk.

Each is back in every ISR before the next is stopped. Meanwhile brokers of both versions serve, with
the features of the older one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.errors import FaultError
from ackproof_faults.evidence import Evidence
from ackproof_faults.fault import Fault
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_model.effects import Effects, Ends, Upgrades


class Upgrade(Fault):
    """Restart the targets with another Kafka version, one after another."""

    name: ClassVar[str] = "upgrade"
    requires: ClassVar[InterfaceNames] = ("metadata", "operations")
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
        return Evidence(text="; ".join(f"broker {node} runs Kafka {self.to}" for node in nodes))

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None:
        """Do nothing: an upgrade is not undone."""
