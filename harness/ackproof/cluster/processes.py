"""The processes of nodes, as faults start, end and freeze them."""

from __future__ import annotations

from collections.abc import Mapping

from ackproof.cluster import oom
from ackproof.cluster.fault_errors import raises_fault_errors
from ackproof.cluster.node import KafkaNode
from ackproof_faults.interfaces.processes import Freezer, Memory, Processes


@raises_fault_errors
class NodeProcesses(Processes):
    """The main process of each node's container; `nodes` are by id."""

    def __init__(self, nodes: Mapping[int, KafkaNode]) -> None:
        self._nodes = nodes

    def kill(self, node: int) -> None:
        self._nodes[node].kill()

    def terminate(self, node: int) -> None:
        self._nodes[node].terminate()

    def start(self, node: int) -> None:
        self._nodes[node].start_again()

    def exit_status(self, node: int) -> int | None:
        return self._nodes[node].exit_status()


@raises_fault_errors
class NodeFreezer(Freezer):
    """`docker pause` (the cgroup freezer) on each node's container."""

    def __init__(self, nodes: Mapping[int, KafkaNode]) -> None:
        self._nodes = nodes

    def pause(self, node: int) -> None:
        self._nodes[node].pause()

    def resume(self, node: int) -> None:
        self._nodes[node].resume()

    def paused(self, node: int) -> bool:
        return self._nodes[node].paused()


@raises_fault_errors
class NodeMemory(Memory):
    """The memory limit of each node's container."""

    def __init__(self, nodes: Mapping[int, KafkaNode]) -> None:
        self._nodes = nodes

    def exhaust(self, node: int) -> None:
        oom.exhaust(self._nodes[node].container)

    def exhausted(self, node: int) -> bool:
        return self._nodes[node].out_of_memory()
