"""Another controller joins the metadata quorum under load (KIP-853)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.targets import Target, TargetSpec
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Fault


class AddController(Fault):
    """Boot another controller and have it vote; it stays. Kafka 4.1 and later."""

    name: ClassVar[str] = "add_controller"
    proof: ClassVar[str] = "the quorum lists the new controller among its voters"
    disables: ClassVar[bool] = False
    fault: Literal["add_controller"] = "add_controller"
    target: Target = Field(
        default=TargetSpec(role="all"), description="ignored: the controller is a new one"
    )

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Boot it, until it follows the quorum."""
        cluster.operations().add_controller()

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that a controller was added which votes."""
        operations = cluster.operations()
        added, voters = operations.added_controllers(), operations.voters()
        if not added or added[-1] not in voters:
            raise FaultError(
                f"no controller that was added votes (added: {list(added) or 'none'}; voters: "
                f"{list(voters)})"
            )
        return f"controller {added[-1]} votes; voters are {list(voters)}"

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Do nothing: it stays."""

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int]) -> bool:
        """Whether the quorum has a leader."""
        return cluster.active_controller() is not None
