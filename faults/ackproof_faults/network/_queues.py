"""What latency and bandwidth limits share: a queueing discipline at a node's network device."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, CommandResult, Fault
from ackproof_faults.network import _links

_DEVICE = "eth0"


class Queue(Fault):
    """Put a queueing discipline before all that the targets send; heal takes it away."""

    kind: ClassVar[str]

    @abstractmethod
    def discipline(self) -> str:
        """Return the discipline in tc's words."""

    @abstractmethod
    def require_bite(self, node: int, result: CommandResult) -> str:
        """Return what shows that it holds back packets; raise FaultError if nothing does."""

    @abstractmethod
    def trial(self, address: str) -> str:
        """Return a bash script that sends to `address` and prints what came of it."""

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Install it at each target."""
        script = f"tc qdisc add dev {_DEVICE} root {self.discipline()}"
        for node, result in _links.each(cluster, dict.fromkeys(nodes, script)).items():
            if result.exit_status != 0:
                raise FaultError(f"tc at node {node} refused: {result.output.strip()}")

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Send something from each target to another node, and see it held back."""
        proofs = []
        for node in nodes:
            others = [peer for peer in _links.running(cluster) if peer != node]
            if not others:
                raise FaultError(f"nobody runs to whom node {node} could send")
            result = cluster.run_beside(node, self.trial(cluster.address(others[0])))
            proofs.append(self.require_bite(node, result))
        return "; ".join(proofs)

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Take it away where it is."""
        alive = _links.running(cluster)
        script = (
            f"if tc qdisc show dev {_DEVICE} | grep -q '{self.kind} .*root'; then "
            f"tc qdisc del dev {_DEVICE} root; fi"
        )
        scripts = {node: script for node in nodes if node in alive}
        for node, result in _links.each(cluster, scripts).items():
            if result.exit_status != 0:
                raise FaultError(f"tc at node {node} kept its queue: {result.output.strip()}")


def shown() -> str:
    """Return the command that prints the device's queue with its counters."""
    return f"tc -s qdisc show dev {_DEVICE}"
