"""A broker joins or leaves the cluster under load.

A new broker has no replicas until partitions are moved to it (`reassign`). The replicas of a
removed broker move away before it is shut down for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.conditions.targets import Target
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import untargeted
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.operations._operation import Operation
from ackproof_model.effects import Effects, Ends, Reassigns, Starts


class AddBroker(Operation):
    """Boot another broker; it stays."""

    hits: ClassVar[str] = ""
    disables: ClassVar[bool] = False
    fault: Literal["add_broker"] = "add_broker"
    proof: ClassVar[str] = "the new broker is unfenced, according to the cluster"
    target: Target = untargeted("ignored: the broker is a new one")
    effects: ClassVar[Effects] = (Starts(),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        cluster.operations.add_broker()

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        added = cluster.operations.added()
        if not added or not cluster.metadata.in_sync(added[-1]):
            raise FaultError(f"the new broker is not unfenced (added: {list(added) or 'none'})")
        brokers = list(cluster.metadata.broker_ids())
        return Evidence(text=f"broker {added[-1]} is unfenced; brokers are {brokers}")

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: None) -> bool:
        """Whether every added broker is in sync."""
        return all(cluster.metadata.in_sync(broker) for broker in cluster.operations.added())


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
