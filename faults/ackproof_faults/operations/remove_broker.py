"""A broker is removed under load: its replicas move away, then it is shut down for good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.operations._operation import Operation
from ackproof_model.effects import Effects, Ends, Reassigns


class RemoveBroker(Operation):
    """Move all replicas off the targets, shut them down, and unregister them."""

    occupies: ClassVar[str] = "process"
    fault: Literal["remove_broker"] = "remove_broker"
    proof: ClassVar[str] = "no broker lists the target any more"
    effects: ClassVar[Effects] = (Reassigns(), Ends(clean=True, for_good=True))

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        for node in nodes:
            if node not in cluster.metadata.broker_ids():
                raise FaultError(f"there is no broker {node} any more")
            cluster.operations.remove_broker(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        for node in nodes:
            if cluster.operations.listed(node):
                raise FaultError(f"another broker still lists broker {node}")
        return Evidence(text=f"brokers are {list(cluster.metadata.broker_ids())}")

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: None) -> bool:
        """Whether every remaining broker is in sync."""
        return all(cluster.metadata.in_sync(broker) for broker in cluster.metadata.broker_ids())
