"""A broker is decommissioned under load: its replicas move away, then it is shut down for good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Fault


class RemoveBroker(Fault):
    """Move everything off the targets, shut them down, and make the cluster forget them."""

    name: ClassVar[str] = "remove_broker"
    proof: ClassVar[str] = "no broker lists the target any more"
    occupies: ClassVar[str] = "process"
    fault: Literal["remove_broker"] = "remove_broker"

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Remove each broker; it must be there."""
        for node in nodes:
            if node not in cluster.broker_ids():
                raise FaultError(f"there is no broker {node} any more")
            cluster.operations().remove_broker(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that no other broker lists it and no partition has a replica on it."""
        for node in nodes:
            if cluster.operations().listed(node):
                raise FaultError(f"broker {node} is still listed by another")
        return f"brokers are {list(cluster.broker_ids())}"

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Do nothing: it is gone for good."""

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int]) -> bool:
        """Whether every broker that is left is in sync."""
        return all(cluster.in_sync(broker) for broker in cluster.broker_ids())
