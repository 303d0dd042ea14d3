"""Reads the batch headers of Kafka's segment files (`.log`).

A segment is one record batch after another. The format is `DefaultRecordBatch`'s (magic 2, since
Kafka 0.11), all numbers big-endian::

     0  base offset             int64     43  producer id       int64
     8  length of what follows  int32     51  producer epoch    int16
    12  partition leader epoch  int32     53  base sequence     int32
    16  magic                   int8      57  count of records  int32
    17  CRC-32C of all after it uint32    61  records, compressed together
    21  attributes              int16
    23  last offset delta       int32
    27  base timestamp, ms      int64
    35  max timestamp, ms       int64

The checksum does not cover offset, length and leader epoch, because a broker sets them when it
appends. Older message sets (magic 0 and 1, `LegacyRecord`) are read message by message, each with
its CRC-32; the offset of a compressed message is that of the last message within it.

A file that ends within a batch, or continues with other bytes, is torn: the reader stops there and
reports it, as Kafka's recovery does.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

#: Offset and length, with which every batch and every older message starts.
OVERHEAD = struct.Struct(">qi")
#: The rest of a header of magic 2, from the leader epoch on.
HEADER = struct.Struct(">ibIhiqqqhii")
#: The rest of a message of magic 0 or 1, up to its attributes.
LEGACY = struct.Struct(">Ibb")

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

_CODEC_BITS = 0x07
_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_MAGIC_AT = 4
_CRC_COVERS_FROM = 9
_LEGACY_CRC_COVERS_FROM = 4
_CHUNK = 1 << 20

_CUT_SHORT = "a batch is cut short"
_NO_BATCH = "no batch starts"

#: The first number that is no offset.
_OFFSETS = 2**63


class Batch(NamedTuple):
    """The header of a batch. `size` includes the header; `records` is None for compressed messages.

    `append_time`: all its records have the time at which the broker appended them, `max_timestamp`.
    `crc` is the checksum in the header; `crc_ok` whether the bytes match it. `leader_epoch`,
    `producer_id`, `producer_epoch` and `base_sequence` are -1 if absent, as Kafka writes it.
    """

    position: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    size: int
    magic: int
    crc: int
    crc_ok: bool
    codec: str
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool
    control: bool
    records: int | None
    base_timestamp: int
    max_timestamp: int
    append_time: bool


@dataclass(slots=True, kw_only=True)
class Tail:
    """The end of a segment after its last complete batch: the number of `torn` bytes, and why."""

    torn: int = 0
    reason: str = ""


def batches(file: BinaryIO, *, size: int, tail: Tail | None = None) -> Iterator[Batch]:
    """Yield the batches of a segment of `size` bytes, read from its start.

    The file is read once, forwards, at most a megabyte at a time. When the iterator ends, `tail`
    has the torn bytes.
    """
    end = tail if tail is not None else Tail()
    position = 0
    while position < size:
        batch = _batch(file, position, size - position)
        if isinstance(batch, str):
            end.torn, end.reason = size - position, f"{batch} at byte {position}"
            break
        yield batch
        position += batch.size


def _batch(file: BinaryIO, position: int, left: int) -> Batch | str:
    """Return the batch at `position`, or the reason why it is not valid."""
    start = file.read(OVERHEAD.size)
    if len(start) < OVERHEAD.size:
        return _CUT_SHORT
    offset, length = OVERHEAD.unpack(start)
    if length < LEGACY.size or offset < 0:
        return _NO_BATCH
    head = file.read(min(length, HEADER.size))
    if length > left - OVERHEAD.size or len(head) < min(length, HEADER.size):
        return _CUT_SHORT
    magic = head[_MAGIC_AT]
    if magic == 2 and length >= HEADER.size:
        return _modern(file, position, offset, length, head)
    return _legacy(file, position, offset, length, head) if magic in (0, 1) else _NO_BATCH


def _modern(file: BinaryIO, position: int, offset: int, length: int, head: bytes) -> Batch | str:
    (
        epoch,
        magic,
        crc,
        attributes,
        delta,
        earliest,
        latest,
        producer,
        producer_epoch,
        sequence,
        count,
    ) = HEADER.unpack(head)
    if offset + delta >= _OFFSETS:
        return _NO_BATCH
    computed = _checksum(file, head[_CRC_COVERS_FROM:], length - HEADER.size, _crc32c())
    if computed is None:
        return _CUT_SHORT
    codec = attributes & _CODEC_BITS
    return Batch(
        position=position,
        base_offset=offset,
        last_offset=offset + delta,
        leader_epoch=epoch,
        size=OVERHEAD.size + length,
        magic=magic,
        crc=crc,
        crc_ok=computed == crc,
        codec=CODECS[codec] if codec < len(CODECS) else f"unknown {codec}",
        producer_id=producer,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        transactional=bool(attributes & _TRANSACTIONAL),
        control=bool(attributes & _CONTROL),
        records=count,
        base_timestamp=earliest,
        max_timestamp=latest,
        append_time=bool(attributes & _APPEND_TIME),
    )


def _legacy(file: BinaryIO, position: int, offset: int, length: int, head: bytes) -> Batch | str:
    crc, magic, attributes = LEGACY.unpack_from(head)
    computed = _checksum(file, head[_LEGACY_CRC_COVERS_FROM:], length - len(head), _crc32)
    if computed is None:
        return _CUT_SHORT
    codec = attributes & _CODEC_BITS
    timed = magic == 1 and len(head) >= LEGACY.size + 8
    return Batch(
        position=position,
        base_offset=offset,
        last_offset=offset,
        leader_epoch=-1,
        size=OVERHEAD.size + length,
        magic=magic,
        crc=crc,
        crc_ok=computed == crc,
        codec=CODECS[codec] if codec < len(CODECS) else f"unknown {codec}",
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        transactional=False,
        control=False,
        records=None if codec else 1,
        base_timestamp=-1,
        max_timestamp=struct.unpack_from(">q", head, LEGACY.size)[0] if timed else -1,
        append_time=bool(attributes & _APPEND_TIME),
    )


_Extend = Callable[[int, bytes], int]


def _checksum(file: BinaryIO, start: bytes, left: int, extend: _Extend) -> int | None:
    """Return the checksum of `start` and the next `left` bytes; None if they are not there."""
    value = extend(0, start)
    while left:
        chunk = file.read(min(left, _CHUNK))
        if not chunk:
            return None
        value = extend(value, chunk)
        left -= len(chunk)
    return value


def _crc32(value: int, data: bytes) -> int:
    return zlib.crc32(data, value)


def _crc32c() -> _Extend:
    from google_crc32c import extend

    return extend  # type: ignore[no-any-return]  # a C function without types
