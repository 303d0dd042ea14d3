"""A rolling upgrade of brokers, or a higher level of a feature of the cluster.

A rolling upgrade restarts one broker after another with another Kafka version on its disk. Each
broker is back in every ISR before the next is stopped. Meanwhile brokers of both versions serve,
with the features of the older version. A second `upgrade`, to the cluster's own version, is a
rolling downgrade, which Kafka allows until a feature has a higher level.

When a feature is set to a higher level (KIP-584), brokers change their behaviour while they serve:
transaction.version 2 verifies producers by their epochs (KIP-890), eligible.leader.replicas.version
1 changes the rules of election (KIP-966).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from ackproof_faults.conditions.targets import Target
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import untargeted
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.operations._operation import Operation
from ackproof_model.effects import Effects, Ends, Upgrades


class Upgrade(Operation):
    """Restart the targets with another Kafka version, one after another."""

    occupies = "process"
    fault: Literal["upgrade"] = "upgrade"
    proof = "the version that the broker logs at its start"
    to: str = Field(
        pattern=r"^[0-9]+(\.[0-9]+){2,3}(-rc[0-9]+)?$",
        description="the Kafka version, not older than the cluster's; the cluster's own rolls back",
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


_LEVEL = r"^([1-9][0-9]*|[0-9]+\.[0-9]+-IV[0-9]+)$"


class UpgradeFeature(Operation):
    """Set a feature to a higher level; it stays."""

    hits = ""
    disables = False
    explained = True
    fault: Literal["upgrade_feature"] = "upgrade_feature"
    proof = "the finalized level that a broker reports"
    target: Target = untargeted("ignored: a feature belongs to the cluster")
    feature: str = Field(
        pattern=r"^[a-z][a-z.]*\.version$",
        description="the feature, by Kafka's name",
        examples=["transaction.version", "eligible.leader.replicas.version"],
    )
    level: Annotated[
        str,
        BeforeValidator(lambda value: str(value) if type(value) is int else value),
        WithJsonSchema(
            {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": _LEVEL}]}
        ),
    ] = Field(
        pattern=_LEVEL,
        description="its new level: a number, or the name of a level of metadata.version",
        examples=[2, "4.3-IV0"],
    )

    @property
    def effects(self) -> Effects:
        return (Upgrades(feature=self.feature, level=self.level),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        if cluster.operations.feature_level(self.feature) == self.level:
            raise FaultError(f"{self.feature} is already at level {self.level}")
        cluster.operations.upgrade_feature(self.feature, self.level)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        level = cluster.operations.feature_level(self.feature)
        if level != self.level:
            raise FaultError(f"{self.feature} is at level {level}, not {self.level}")
        return Evidence(text=f"{self.feature} is at level {level}")
