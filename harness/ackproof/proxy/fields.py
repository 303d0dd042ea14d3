"""Kafka's types of fields: lengths and texts, compact in flexible versions, and tagged fields."""

from __future__ import annotations

import struct


class Fields:
    """Moves over the fields of a message."""

    def __init__(self, content: bytearray, *, flexible: bool, at: int = 0) -> None:
        self.content = content
        self.at = at
        self._flexible = flexible

    def skip(self, size: int) -> None:
        if size < 0 or self.at + size > len(self.content):
            raise IndexError(f"{size} bytes at {self.at} of {len(self.content)}")
        self.at += size

    def number(self, kind: str) -> int:
        """Read an integer; kind: b, h, i or q, as `struct` names their sizes."""
        (value,) = struct.unpack_from(f">{kind}", self.content, self.at)
        self.at += struct.calcsize(kind)
        return int(value)

    def length(self) -> int:
        """Read the length of an array, 0 for null."""
        if self._flexible:
            return max(0, self._varint() - 1)
        return max(0, self.number("i"))

    def text(self) -> bytes:
        """Read a text, empty for null."""
        size = max(0, self._varint() - 1 if self._flexible else self.number("h"))
        self.skip(size)
        return bytes(self.content[self.at - size : self.at])

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
