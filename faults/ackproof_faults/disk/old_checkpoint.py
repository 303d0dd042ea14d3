"""Checkpoint files are older than the logs: a restored backup, or a file system that rolled back.

After an unclean shutdown a broker checks its logs from their ``recovery_points`` on; logs are
replicated up to their ``high_watermarks``. Old values must not make a broker lose a record: it
checks more than necessary, and gets the high watermark from the leader again.
"""

from __future__ import annotations

import shlex
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.disk import _disk
from ackproof_faults.evidence import FaultError
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_model.effects import Effects, Ends, SetsBack

_FILES = {"recovery_points": _disk.RECOVERY_POINTS, "high_watermarks": _disk.HIGH_WATERMARKS}


class OldCheckpoint(_disk.DamagedDisk):
    """SIGKILL brokers and set back their checkpoint files; heal starts them again."""

    traceless: ClassVar[bool] = True
    fault: Literal["old_checkpoint"] = "old_checkpoint"
    proof: ClassVar[str] = (
        "the broker is down, and its checkpoint files name no offset above `offset`"
    )
    files: tuple[Literal["recovery_points", "high_watermarks"], ...] = Field(
        default=("recovery_points", "high_watermarks"),
        min_length=1,
        description="which of the checkpoint files",
    )
    offset: int = Field(default=0, ge=0, description="the offset to which they are set back")

    @property
    def effects(self) -> Effects:
        return (
            Ends(),
            SetsBack(
                high_watermarks="high_watermarks" in self.files,
                recovery_points="recovery_points" in self.files,
            ),
        )

    def damage(self, cluster: Cluster, node: int) -> None:
        for directory, file in self._files(cluster, node):
            offsets = _disk.checkpoints(cluster, node, directory, file)
            old = {name: min(offset, self.offset) for name, offset in offsets.items()}
            text = shlex.quote(_disk.checkpoint_text(old))
            _disk.run_script(cluster, node, f"printf %s {text} > {directory}/{file}")

    def require_damage(self, cluster: Cluster, node: int) -> str:
        """Require that the files have a partition, and no higher offset."""
        partitions = 0
        for directory, file in self._files(cluster, node):
            offsets = _disk.checkpoints(cluster, node, directory, file)
            high = {name: offset for name, offset in offsets.items() if offset > self.offset}
            if high:
                raise FaultError(f"{file} of broker {node} has {high}")
            partitions += len(offsets)
        if not partitions:
            raise FaultError(f"the checkpoint files of broker {node} name no partition")
        return f"broker {node}: {', '.join(self.files)} at {self.offset} or below"

    def _files(self, cluster: Cluster, node: int) -> list[tuple[str, str]]:
        """Return (log directory, file name) of each checkpoint file."""
        return [
            (directory, _FILES[file])
            for directory in cluster.volumes.log_directories(node)
            for file in self.files
        ]
