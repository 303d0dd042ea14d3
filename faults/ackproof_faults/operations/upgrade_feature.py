"""A feature of the cluster is set to a higher level under load (KIP-584).

Brokers change their behaviour while they serve: transaction.version 2 verifies producers by their
epochs (KIP-890), eligible.leader.replicas.version 1 changes the rules of election (KIP-966).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from ackproof_faults.conditions.targets import Target
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import untargeted
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.operations._operation import Operation
from ackproof_model.effects import Effects, Upgrades

_LEVEL = r"^([1-9][0-9]*|[0-9]+\.[0-9]+-IV[0-9]+)$"


class UpgradeFeature(Operation):
    """Set a feature to a higher level; it stays."""

    hits: ClassVar[str] = ""
    disables: ClassVar[bool] = False
    explained: ClassVar[bool] = True
    fault: Literal["upgrade_feature"] = "upgrade_feature"
    proof: ClassVar[str] = "the finalized level that a broker reports"
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
