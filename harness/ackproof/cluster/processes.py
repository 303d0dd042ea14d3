"""The processes of nodes, as faults start, end and freeze them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ackproof.cluster import oom
from ackproof.cluster.fault_errors import raises_fault_errors
from ackproof.cluster.node import KafkaNode
from ackproof_faults.interfaces.processes import Freezer, Memory, Processes


@raises_fault_errors
@dataclass(frozen=True)
class NodeProcesses(Processes, Freezer, Memory):
    """The container of each node: its main process, the cgroup freezer, and its memory limit.

    `nodes` are by id.
    """

    nodes: Mapping[int, KafkaNode]

    def kill(self, node: int) -> None:
        self.nodes[node].kill()

    def terminate(self, node: int) -> None:
        self.nodes[node].terminate()

    def start(self, node: int) -> None:
        self.nodes[node].start_again()

    def exit_status(self, node: int) -> int | None:
        return self.nodes[node].exit_status()

    def pause(self, node: int) -> None:
        self.nodes[node].pause()

    def resume(self, node: int) -> None:
        self.nodes[node].resume()

    def paused(self, node: int) -> bool:
        return self.nodes[node].paused()

    def exhaust(self, node: int) -> None:
        oom.exhaust(self.nodes[node].container)

    def exhausted(self, node: int) -> bool:
        return self.nodes[node].out_of_memory()
