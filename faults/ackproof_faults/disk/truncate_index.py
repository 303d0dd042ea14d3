"""The offset indexes of a log end in the middle of an entry; the broker has to build them anew."""

from __future__ import annotations

from typing import ClassVar, Literal

from ackproof_faults.disk._index_files import DamagedIndex

#: An entry of an offset index has 8 bytes; `OffsetIndex.sanityCheck` refuses other multiples.
_ENTRY = 8
_LEFT = 5


class TruncateIndex(DamagedIndex):
    """SIGKILL brokers and cut each segment's offset index inside an entry; heal starts them."""

    name: ClassVar[str] = "truncate_index"
    occupies: ClassVar[str] = "process"
    fault: Literal["truncate_index"] = "truncate_index"
    proof: ClassVar[str] = "the broker is down, and every offset index ends inside an entry"

    def damage(self, path: str) -> str:
        """Return the command that cuts it."""
        return f"truncate -s {_LEFT} {path}"

    def damaged(self, size: int | None) -> bool:
        """Whether it ends inside an entry."""
        return size is not None and size % _ENTRY != 0
