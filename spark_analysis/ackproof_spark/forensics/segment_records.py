"""Reads the records in Kafka's segment files, of magic 2 (`DefaultRecord`).

A record is a length and fields as zigzag varints::

    length, attributes (1 byte), timestamp delta, offset delta, key, value, headers

where key, value and each header's name and value have their length before them, -1 for null.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ackproof_spark.errors import SegmentError
from ackproof_spark.forensics.segments import HEADER, OVERHEAD, Batch, batches

#: snappy-java's frame: a magic, two versions, then blocks with their length before them.
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record. transaction: its producer id if it was sent in a transaction, else None."""

    offset: int
    leader_epoch: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    transaction: int | None


def records(replica: Path, *, first: int, last: int) -> Iterator[Record]:
    """Yield the records of a replica's folder with offsets from `first` to `last`.

    A torn end is passed over, as Kafka would do. Raises SegmentError for a damaged batch, and for
    the formats before Kafka 0.11.
    """
    segments = sorted(replica.glob("*.log"))
    ends = [*(int(segment.stem) for segment in segments[1:]), last + 1]
    for segment, end in zip(segments, ends, strict=True):
        if int(segment.stem) <= last and end > first:
            yield from _of_segment(segment, first, last)


def _of_segment(segment: Path, first: int, last: int) -> Iterator[Record]:
    with segment.open("rb") as file, segment.open("rb") as content:
        for batch in batches(file, size=segment.stat().st_size):
            if batch.control or batch.last_offset < first:
                continue
            if batch.base_offset > last:
                return
            place = f"{segment}: the batch at offset {batch.base_offset}"
            if not batch.crc_ok:
                raise SegmentError(f"{place} is damaged: its checksum does not match")
            if batch.magic < 2:
                raise SegmentError(f"{place} has the format before Kafka 0.11, which is not read")
            content.seek(batch.position)
            try:
                for record in _of_batch(batch, content.read(batch.size)):
                    if first <= record.offset <= last:
                        yield record
            except (ValueError, IndexError, struct.error, OSError, zlib.error) as error:
                raise SegmentError(f"{place} cannot be decoded: {error}") from error


def _of_batch(batch: Batch, data: bytes) -> Iterator[Record]:
    fields = _Fields(_decompressed(data[OVERHEAD.size + HEADER.size :], batch.codec))
    for _ in range(batch.records or 0):
        length = fields.number()
        end = fields.at + length
        fields.at += 1  # its attributes are not used
        timestamp = batch.base_timestamp + fields.number()
        offset = batch.base_offset + fields.number()
        if batch.append_time:
            timestamp = batch.max_timestamp
        key, value = fields.sized(), fields.sized()
        headers = tuple(
            ((fields.sized() or b"").decode(errors="replace"), fields.sized())
            for _ in range(fields.number())
        )
        if fields.at != end:
            raise ValueError(f"a record of {length} bytes has fields of another length")
        yield Record(
            offset=offset,
            leader_epoch=batch.leader_epoch,
            timestamp=timestamp,
            key=key,
            value=value,
            headers=headers,
            transaction=batch.producer_id if batch.transactional else None,
        )


@dataclass(slots=True)
class _Fields:
    """Reads the fields of records in their order."""

    data: bytes
    at: int = 0

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def number(self) -> int:
        value = self.unsigned()
        return (value >> 1) ^ -(value & 1)

    def sized(self) -> bytes | None:
        size = self.number()
        if size < 0:
            return None
        self.at += size
        if self.at > len(self.data):
            raise ValueError("a field ends after its batch")
        return self.data[self.at - size : self.at]


def _decompressed(data: bytes, codec: str) -> bytes:
    if codec == "none":
        return data
    if codec == "gzip":
        return zlib.decompress(data, wbits=31)
    import pyarrow as pa

    if codec in ("lz4", "zstd"):
        with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
            return bytes(stream.read())
    if codec != "snappy":
        raise ValueError(f"its codec is {codec}")
    return b"".join(_snappy(block, pa.Codec("snappy")) for block in _snappy_blocks(data))


def _snappy_blocks(data: bytes) -> Iterator[bytes]:
    if not data.startswith(_SNAPPY_MAGIC):
        yield data
        return
    at = _SNAPPY_HEADER
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def _snappy(block: bytes, codec: Any) -> bytes:
    """Return the content of a block, which begins with its length after decompression."""
    return bytes(codec.decompress(block, decompressed_size=_Fields(block).unsigned()))
