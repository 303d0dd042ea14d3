"""No fault: the control of every comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from ackproof_faults.conditions.targets import Target
from ackproof_faults.evidence import Evidence
from ackproof_faults.fault import Fault, untargeted
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_model.effects import Effects


class NoFault(Fault):
    """Do nothing, with a window like that of every fault: the control."""

    requires = ()
    hits = ""
    disables = False
    explained = True
    traceless = True
    fault: Literal["none"] = "none"
    proof = "nothing was touched"
    target: Target = untargeted("ignored: nothing is touched")
    effects: ClassVar[Effects] = ()

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None: ...

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        return Evidence(text="nothing was touched")

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None: ...

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: None) -> bool:
        return True
