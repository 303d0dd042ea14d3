"""A feature of the cluster is set to a higher level under load (KIP-584).

Brokers change their behaviour while they serve: transaction.version 2 has producers verified by
their epochs (KIP-890), eligible.leader.replicas.version 1 another rule of election (KIP-966).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from ackproof_faults.conditions.targets import Target, TargetSpec
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Fault

_LEVEL = r"^([1-9][0-9]*|[0-9]+\.[0-9]+-IV[0-9]+)$"


class UpgradeFeature(Fault):
    """Set a feature to a higher level; it stays."""

    name: ClassVar[str] = "upgrade_feature"
    proof: ClassVar[str] = "the level that a broker calls finalized"
    disables: ClassVar[bool] = False
    fault: Literal["upgrade_feature"] = "upgrade_feature"
    target: Target = Field(
        default=TargetSpec(role="all"), description="ignored: a feature is the cluster's"
    )
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
        description="its level from now on: a number, or the name of one of metadata.version",
        examples=[2, "4.3-IV0"],
    )

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Set it; it must have another level."""
        operations = cluster.operations()
        found = operations.feature_level(self.feature)
        if found == self.level:
            raise FaultError(f"{self.feature} is at level {self.level} already")
        operations.upgrade_feature(self.feature, self.level)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that the level is finalized."""
        found = cluster.operations().feature_level(self.feature)
        if found != self.level:
            raise FaultError(f"{self.feature} is at level {found}, not {self.level}")
        return f"{self.feature} is at level {found}"

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Do nothing: it stays."""
