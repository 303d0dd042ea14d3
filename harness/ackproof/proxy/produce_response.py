"""Error codes in a Produce response (`ProduceResponse.json`, versions 0 to 13)."""

from __future__ import annotations

import struct

_NEWEST = 13
#: From these versions on: compact lengths and tagged fields, topic ids instead of names.
_FLEXIBLE, _TOPIC_IDS = 9, 13


def with_error(response: bytes, version: int, code: int) -> bytes | None:
    """Return the response with this error code for every partition; None if it is not readable."""
    if version > _NEWEST:
        return None
    fields = _Fields(bytearray(response), flexible=version >= _FLEXIBLE)
    try:
        fields.skip(4)  # the correlation id
        fields.tags()
        for _ in range(fields.length()):
            fields.skip(16) if version >= _TOPIC_IDS else fields.text()
            for _ in range(fields.length()):
                fields.skip(4)
                struct.pack_into(">h", fields.content, fields.at, code)
                # Error code, base offset; time of the append; begin of the log.
                fields.skip(2 + 8 + 8 * (version >= 2) + 8 * (version >= 5))
                if version >= 8:
                    for _ in range(fields.length()):
                        fields.skip(4)
                        fields.text()
                        fields.tags()
                    fields.text()
                fields.tags()
            fields.tags()
    except (struct.error, IndexError):
        return None
    return bytes(fields.content)


class _Fields:
    """Moves over the fields of a message."""

    def __init__(self, content: bytearray, *, flexible: bool) -> None:
        self.content = content
        self.at = 0
        self._flexible = flexible

    def skip(self, size: int) -> None:
        if size < 0 or self.at + size > len(self.content):
            raise IndexError(f"{size} bytes at {self.at} of {len(self.content)}")
        self.at += size

    def length(self) -> int:
        """Read the length of an array, 0 for null."""
        if self._flexible:
            return max(0, self._varint() - 1)
        (length,) = struct.unpack_from(">i", self.content, self.at)
        self.at += 4
        return max(0, int(length))

    def text(self) -> None:
        if self._flexible:
            self.skip(max(0, self._varint() - 1))
            return
        (length,) = struct.unpack_from(">h", self.content, self.at)
        self.at += 2
        self.skip(max(0, length))

    def tags(self) -> None:
        if self._flexible:
            for _ in range(self._varint()):
                self._varint()
                self.skip(self._varint())

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.content[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
