"""The offset indexes of a log end in the middle of an entry; the broker has to rebuild them."""

from __future__ import annotations

from typing import ClassVar, Literal

from ackproof_faults.disk._index_files import DamagedIndex

#: Size of an entry of an offset index, bytes; `OffsetIndex.sanityCheck` refuses other multiples.
_ENTRY = 8
_LEFT = 5


class TruncateIndex(DamagedIndex):
    """SIGKILL brokers and cut each segment's offset index inside an entry; heal starts them."""

    name: ClassVar[str] = "truncate_index"
    fault: Literal["truncate_index"] = "truncate_index"
    proof: ClassVar[str] = "the broker is down, and every offset index ends inside an entry"

    def damage(self, path: str) -> str:
        return f"truncate -s {_LEFT} {path}"

    def damaged(self, size: int | None) -> bool:
        return size is not None and size % _ENTRY != 0
