"""The network namespaces of nodes, as faults filter and queue packets in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ackproof.cluster.fault_errors import raises_fault_errors
from ackproof.cluster.state import ClusterState
from ackproof.containers import sidecar
from ackproof_faults.interfaces.command import CommandResult
from ackproof_faults.interfaces.network import NetworkNamespace


@raises_fault_errors
@dataclass(frozen=True)
class NodeNetworks(NetworkNamespace):
    """Runs scripts in sidecar containers that share a node's network namespace."""

    cluster: ClusterState

    def address(self, node: int) -> str:
        return self.cluster.nodes[node].address

    def port(self, listener: str) -> int:
        return self.cluster.topology.port(listener)

    def client_listeners(self) -> Sequence[str]:
        return self.cluster.topology.client_listeners

    def run(self, node: int, script: str) -> CommandResult:
        cluster = self.cluster
        return sidecar.run(
            cluster.client,
            cluster.sidecar,
            script,
            run_id=cluster.run_id,
            **self._namespace(node),
        )

    def start(self, node: int, name: str, script: str) -> None:
        cluster = self.cluster
        sidecar.start(
            cluster.client,
            cluster.sidecar,
            script,
            name=self._container_name(node, name),
            run_id=cluster.run_id,
            **self._namespace(node),
        )

    def end(self, node: int, name: str) -> None:
        sidecar.end(self.cluster.client, self._container_name(node, name))

    def _namespace(self, node: int) -> Mapping[str, Any]:
        return {
            "network_mode": f"container:{self.cluster.nodes[node].container.id}",
            "cap_add": ["NET_ADMIN"],
        }

    def _container_name(self, node: int, name: str) -> str:
        return f"ackproof-{self.cluster.run_id}-{self.cluster.nodes[node].spec.name}-{name}"
