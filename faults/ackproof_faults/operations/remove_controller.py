"""A controller is taken out of the metadata quorum under load (KIP-853), and ends.

The active controller that removes itself resigns once the others have committed that, and another
one is elected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.targets import Target, TargetSpec
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Fault, Shape


class RemoveController(Fault):
    """Have controllers vote no more, and shut them down for good. Kafka 4.1 and later."""

    name: ClassVar[str] = "remove_controller"
    proof: ClassVar[str] = "the quorum lists the target no more among its voters"
    occupies: ClassVar[str] = "process"
    fault: Literal["remove_controller"] = "remove_controller"
    target: Target = Field(
        default=TargetSpec(role="active controller"),
        description="active controller, or minority of controllers",
    )

    def problems(self, shape: Shape) -> Iterator[tuple[str, str]]:
        """Yield a target that is no controller, and a quorum that cannot do without it."""
        if not self.target.of_controllers:
            yield "target", f"'{self.target}' is no controller that votes: say 'active controller'"
        if len(shape.controllers) < 2:
            yield "target", "there is one controller only: set cluster.controllers to 3"
        if set(shape.controllers) & set(shape.brokers):
            yield "target", "controllers that are brokers, too, cannot be removed"

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Remove each; it must vote."""
        for node in nodes:
            cluster.operations().remove_controller(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that it votes no more, and that others do."""
        voters = cluster.operations().voters()
        if not voters or set(nodes) & set(voters):
            raise FaultError(f"voters are {list(voters) or 'unknown'}")
        return f"voters are {list(voters)}, without {', '.join(map(str, nodes))}"

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Do nothing: it is gone for good."""

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int]) -> bool:
        """Whether the quorum has a leader."""
        return cluster.active_controller() is not None
