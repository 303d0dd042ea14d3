"""The bytes of a record's value: a header of 32 bytes, then padding to the workload's record size.

All numbers are big-endian::

    0   magic     4 bytes   b"AKP1"
    4   checksum  4 bytes   CRC-32 (zlib's, Spark SQL's `crc32`) of everything after it
    8   run       8 bytes   the first 8 bytes of SHA-256 of the run id
    16  producer  8 bytes   the producer's number within the run
    24  sequence  8 bytes   the send's number within the producer, from 0
    32  padding             zero bytes

`(run, producer, sequence)` is the name of a send. The comparison counts names, not offsets, because
transaction markers and control records leave gaps in offsets.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable

MAGIC = b"AKP1"
#: The value of the record that ends each partition. It follows the run's last record.
END_MARKER = b"end of run"
HEADER_SIZE = 32
#: The header that holds the id of an application's record, unless the scenario names another.
ID_HEADER = "ackproof-id"

_CHECKSUM = struct.Struct(">4sI")
_NAME = struct.Struct(">8sqq")


def run_token(run_id: str) -> bytes:
    """Return the 8 bytes that stand for `run_id` in every record of the run."""
    return hashlib.sha256(run_id.encode()).digest()[:8]


def encoder(*, run_id: str, producer: int, size: int) -> Callable[[int], bytes]:
    """Return a function from sequence to value, for one producer.

    `size` is the value's length in bytes, at least `HEADER_SIZE`. Prefix and padding are computed
    once, because a producer calls the result hundreds of thousands of times a second.
    """
    if size < HEADER_SIZE:
        raise ValueError(f"a record needs at least {HEADER_SIZE} bytes, not {size}")
    prefix = run_token(run_id) + struct.pack(">q", producer)
    prefix_crc = zlib.crc32(prefix)
    padding = bytes(size - HEADER_SIZE)
    pack_sequence = struct.Struct(">q").pack
    pack_head = _CHECKSUM.pack
    crc32 = zlib.crc32

    def encode(sequence: int) -> bytes:
        tail = pack_sequence(sequence) + padding
        return pack_head(MAGIC, crc32(tail, prefix_crc)) + prefix + tail

    return encode


def decode(value: bytes) -> tuple[bytes, int, int] | None:
    """Return `(run token, producer, sequence)`, or None if `value` is no intact record."""
    name = head_name(value)
    if name is None:
        return None
    _, checksum = _CHECKSUM.unpack_from(value)
    return name if zlib.crc32(value[8:]) == checksum else None


def head_name(head: bytes) -> tuple[bytes, int, int] | None:
    """Return what `decode` does of a value of which only the header is known."""
    if len(head) < HEADER_SIZE or not head.startswith(MAGIC):
        return None
    return _NAME.unpack_from(head, 8)
