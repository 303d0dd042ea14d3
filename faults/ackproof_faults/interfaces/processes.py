"""The processes of brokers and controllers."""

from __future__ import annotations

from typing import Protocol


class Processes(Protocol):
    """Start and end the process of a node; `node` is a broker's or controller's node id."""

    def kill(self, node: int) -> None:
        """Send SIGKILL and wait until the process has ended."""

    def terminate(self, node: int) -> None:
        """Send SIGTERM (a controlled shutdown) and wait until the process has ended."""

    def start(self, node: int) -> None:
        """Start a stopped node with its identity, data and address; a no-op if it runs."""

    def exit_status(self, node: int) -> int | None:
        """Return the exit status of the process, None while it runs."""


class Freezer(Protocol):
    """Freeze and thaw the processes of a node (cgroup freezer)."""

    def pause(self, node: int) -> None:
        """Freeze the node's processes: they neither answer nor close a connection."""

    def resume(self, node: int) -> None:
        """Thaw the node's processes; a no-op if they are not frozen."""

    def paused(self, node: int) -> bool: ...


class Memory(Protocol):
    """The memory limit of a node."""

    def exhaust(self, node: int) -> None:
        """Make the kernel's out-of-memory killer end the node's process, and wait for that."""

    def exhausted(self, node: int) -> bool:
        """Whether the out-of-memory killer ended the node's process."""
