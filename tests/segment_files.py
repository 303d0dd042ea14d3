"""Batches in the format of segments."""

from __future__ import annotations

import struct
import zlib

from google_crc32c import value as crc32c


def batch(
    base_offset: int,
    *,
    count: int = 1,
    epoch: int = 0,
    payload: bytes = b"records",
    attributes: int = 0,
    producer: int = -1,
    sequence: int = -1,
) -> bytes:
    """Return a batch of magic 2 with `payload` as its records; a producer's epoch is 0."""
    producer_epoch = -1 if producer < 0 else 0
    fields = attributes, count - 1, 1000, 2000, producer, producer_epoch, sequence, count
    body = struct.pack(">hiqqqhii", *fields) + payload
    head = struct.pack(">ibI", epoch, 2, crc32c(body))
    return struct.pack(">qi", base_offset, len(head) + len(body)) + head + body


def message(offset: int, *, magic: int, attributes: int = 0, value: bytes = b"old") -> bytes:
    """Return a message of magic 0 or 1, the format before 0.11."""
    time = struct.pack(">q", 3000) if magic else b""
    body = struct.pack(">bb", magic, attributes) + time
    body += struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    body = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(body)) + body
