"""The disks of brokers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ackproof_faults.interfaces.command import CommandResult


class Volumes(Protocol):
    """Read and change the files of a broker; the broker may be stopped."""

    def log_directories(self, broker: int) -> Sequence[str]:
        """Return the broker's log directories; metadata and identity lie in the first."""

    def run(self, broker: int, script: str) -> CommandResult:
        """Run a bash script where the broker's volume is mounted at the broker's own path."""

    def read_file(self, broker: int, path: str) -> bytes:
        """Return the content of a file; raise FaultError if there is none."""

    def renew_identity(self, broker: int) -> None:
        """Format each empty log directory as a new one when the broker starts."""
