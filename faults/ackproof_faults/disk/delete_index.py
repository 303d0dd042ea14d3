"""The offset indexes of a log are deleted; the broker has to rebuild them."""

from __future__ import annotations

from typing import ClassVar, Literal

from ackproof_faults.disk._index_files import DamagedIndex


class DeleteIndex(DamagedIndex):
    """SIGKILL brokers and delete the offset index of each segment; heal starts them again."""

    name: ClassVar[str] = "delete_index"
    fault: Literal["delete_index"] = "delete_index"
    proof: ClassVar[str] = "the broker is down, and no segment on its disk has an offset index"

    def damage(self, path: str) -> str:
        return f"rm -f {path}"

    def damaged(self, size: int | None) -> bool:
        return size is None
