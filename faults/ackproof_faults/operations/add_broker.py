"""Another broker joins the cluster under load.

It holds nothing until something is moved to it (`reassign`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.targets import Target, TargetSpec
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Fault


class AddBroker(Fault):
    """Boot another broker; it stays."""

    name: ClassVar[str] = "add_broker"
    proof: ClassVar[str] = "the new broker is unfenced, by what the cluster itself says"
    disables: ClassVar[bool] = False
    fault: Literal["add_broker"] = "add_broker"
    target: Target = Field(
        default=TargetSpec(role="all"), description="ignored: the broker is a new one"
    )

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Boot it, until every other broker lists it."""
        cluster.operations().add_broker()

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that a broker was added which runs and is unfenced."""
        added = cluster.operations().added()
        if not added or not cluster.in_sync(added[-1]):
            raise FaultError(f"no broker that was added is there (added: {list(added) or 'none'})")
        return f"broker {added[-1]} is unfenced; brokers are {list(cluster.broker_ids())}"

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Do nothing: it stays."""

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int]) -> bool:
        """Whether every broker that was added is in sync."""
        return all(cluster.in_sync(broker) for broker in cluster.operations().added())
