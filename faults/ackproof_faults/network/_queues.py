"""The base of latency and bandwidth limits: a queueing discipline at a node's network device."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from ackproof_faults.errors import FaultError
from ackproof_faults.evidence import Evidence
from ackproof_faults.fault import Fault
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_faults.interfaces.command import CommandResult
from ackproof_faults.network._nftables import run_at_each
from ackproof_faults.process._nodes import running_nodes

_DEVICE = "eth0"


class Queue(Fault):
    """Put a queueing discipline (tc) before everything that the targets send."""

    requires: ClassVar[InterfaceNames] = ("metadata", "controllers", "processes", "network")
    disables: ClassVar[bool] = False
    explained: ClassVar[bool] = True
    traceless: ClassVar[bool] = True
    #: Name of the discipline.
    kind: ClassVar[str]

    @abstractmethod
    def discipline(self) -> str:
        """Return the discipline as arguments of tc."""

    @abstractmethod
    def trial(self, address: str) -> str:
        """Return a bash script that sends to `address` and prints what shows the effect."""

    @abstractmethod
    def require_effect(self, node: int, result: CommandResult) -> str:
        """Return how the trial shows that packets wait; raise FaultError if it does not."""

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        script = f"tc qdisc add dev {_DEVICE} root {self.discipline()}"
        for node, result in run_at_each(cluster, dict.fromkeys(nodes, script)).items():
            if result.exit_status != 0:
                raise FaultError(f"tc at node {node} refused: {result.output.strip()}")

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        proofs = []
        for node in nodes:
            peers = [peer for peer in running_nodes(cluster) if peer != node]
            if not peers:
                raise FaultError(f"no other node runs to which node {node} could send")
            trial = self.trial(cluster.network.address(peers[0]))
            proofs.append(self.require_effect(node, cluster.network.run(node, trial)))
        return Evidence(text="; ".join(proofs))

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None:
        script = (
            f"if tc qdisc show dev {_DEVICE} | grep -q '{self.kind} .*root'; then "
            f"tc qdisc del dev {_DEVICE} root; fi"
        )
        running = running_nodes(cluster)
        scripts = {node: script for node in nodes if node in running}
        for node, result in run_at_each(cluster, scripts).items():
            if result.exit_status != 0:
                raise FaultError(f"tc at node {node} kept its queue: {result.output.strip()}")


def show_queue() -> str:
    """Return the command that prints the device's queue with its counters."""
    return f"tc -s qdisc show dev {_DEVICE}"
