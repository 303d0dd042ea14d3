"""The offset indexes of a log are gone; the broker has to build them anew."""

from __future__ import annotations

from typing import ClassVar, Literal

from ackproof_faults.disk._index_files import DamagedIndex


class DeleteIndex(DamagedIndex):
    """SIGKILL brokers and delete the offset index of each segment; heal starts them again."""

    name: ClassVar[str] = "delete_index"
    occupies: ClassVar[str] = "process"
    fault: Literal["delete_index"] = "delete_index"
    proof: ClassVar[str] = "the broker is down, and no segment on its disk has an offset index"

    def damage(self, path: str) -> str:
        """Return the command that deletes it."""
        return f"rm -f {path}"

    def damaged(self, size: int | None) -> bool:
        """Whether it is gone."""
        return size is None
