"""A controller joins the metadata quorum under load (KIP-853)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.conditions.targets import Target
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import untargeted
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_faults.operations._operation import Operation
from ackproof_model.effects import ChangesQuorum, Effects, Starts


class AddController(Operation):
    """Boot another controller and add it to the voters; it stays. Kafka 4.1 and later."""

    requires: ClassVar[InterfaceNames] = ("controllers", "operations")
    hits: ClassVar[str] = ""
    disables: ClassVar[bool] = False
    explained: ClassVar[bool] = True
    fault: Literal["add_controller"] = "add_controller"
    proof: ClassVar[str] = "the quorum lists the new controller among its voters"
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
