"""No fault at all: the control in every comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.targets import Target, TargetSpec
from ackproof_faults.fault import Cluster, Fault


class NoFault(Fault):
    """Does nothing, with a window like every other fault: the control."""

    name: ClassVar[str] = "none"
    disables: ClassVar[bool] = False
    fault: Literal["none"] = "none"
    proof: ClassVar[str] = "nothing was touched"
    target: Target = Field(
        default=TargetSpec(role="all"), description="ignored: nothing is touched"
    )

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Do nothing."""

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Say so."""
        return "nothing was touched"

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Do nothing."""

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int]) -> bool:
        """Return True: nothing was touched."""
        return True
