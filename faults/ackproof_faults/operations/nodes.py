"""A broker or a controller joins or leaves the cluster under load.

A new broker has no replicas until partitions are moved to it (`reassign`). The replicas of a
removed broker move away before it is shut down for good. Controllers join and leave the metadata
quorum (KIP-853). An active controller that removes itself resigns when the others have committed
the removal; then another controller is elected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.targets import Target, TargetSpec
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Problem, Shape, untargeted
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.operations._operation import Operation
from ackproof_model.effects import ChangesQuorum, Effects, Ends, Reassigns, Starts


class AddBroker(Operation):
    """Boot another broker; it stays."""

    hits = ""
    disables = False
    fault: Literal["add_broker"] = "add_broker"
    proof = "the new broker is unfenced, according to the cluster"
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

    occupies = "process"
    fault: Literal["remove_broker"] = "remove_broker"
    proof = "no broker lists the target any more"
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


class AddController(Operation):
    """Boot another controller and add it to the voters; it stays. Kafka 4.1 and later."""

    requires = ("controllers", "operations")
    hits = ""
    disables = False
    explained = True
    fault: Literal["add_controller"] = "add_controller"
    proof = "the quorum lists the new controller among its voters"
    target: Target = untargeted("ignored: the controller is a new one")
    effects: ClassVar[Effects] = (Starts(controller=True), ChangesQuorum())

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        cluster.operations.add_controller()

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        added, voters = cluster.operations.added_controllers(), cluster.operations.voters()
        if not added or added[-1] not in voters:
            raise FaultError(
                f"the new controller is no voter (added: {list(added) or 'none'}; voters: "
                f"{list(voters)})"
            )
        return Evidence(text=f"controller {added[-1]} is a voter; voters are {list(voters)}")

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: None) -> bool:
        return cluster.controllers.active() is not None


class RemoveController(Operation):
    """Remove controllers from the voters and shut them down for good. Kafka 4.1 and later."""

    requires = ("controllers", "operations")
    occupies = "process"
    explained = True
    fault: Literal["remove_controller"] = "remove_controller"
    proof = "the quorum no longer lists the target among its voters"
    target: Target = Field(
        default=TargetSpec(role="active controller"),
        description="active controller, or minority of controllers",
    )
    effects: ClassVar[Effects] = (ChangesQuorum(), Ends(clean=True, for_good=True))

    def problems(self, shape: Shape) -> Iterator[Problem]:
        if not self.target.of_controllers:
            yield "target", f"'{self.target}' is not a controller: write 'active controller'"
        if len(shape.controllers) < 2:
            yield "target", "there is one controller only: set cluster.controllers to 3"
        if shape.combined:
            yield "target", "controllers that are also brokers cannot be removed"

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        for node in nodes:
            cluster.operations.remove_controller(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        voters = cluster.operations.voters()
        if not voters or set(nodes) & set(voters):
            raise FaultError(
                f"the quorum still lists the removed controller, or does not answer: voters are "
                f"{list(voters) or 'unknown'}"
            )
        removed = ", ".join(map(str, nodes))
        return Evidence(text=f"voters are {list(voters)}, without {removed}")

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: None) -> bool:
        return cluster.controllers.active() is not None
