"""The network namespaces of nodes, where packets are filtered and queued."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ackproof_faults.interfaces.command import CommandResult


class NetworkNamespace(Protocol):
    """Addresses and ports of nodes, and scripts in their network namespaces."""

    def address(self, node: int) -> str:
        """Return the node's IP address on the cluster's network."""

    def port(self, listener: str) -> int:
        """Return the port of a listener (CONTROLLER, INTERNAL, EXTERNAL, …) inside the network."""

    def client_listeners(self) -> Sequence[str]:
        """Return the listeners for clients: EXTERNAL, and further ones."""

    def run(self, node: int, script: str) -> CommandResult:
        """Run a bash script in the node's network namespace, with NET_ADMIN and nft."""

    def start(self, node: int, name: str, script: str) -> None:
        """Start such a script in the background; it runs until it ends, or until `end`."""

    def end(self, node: int, name: str) -> None:
        """End a script that `start` started; a no-op if it has ended."""
