"""The records inside a batch, decompressed.

A record (`DefaultRecord`, magic 2) is a length and then varints (zigzag, as Protocol Buffers have
them): attributes, timestamp delta, offset delta, key, value, headers; -1 is the length of null.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ackproof_spark.errors import AnalysisError
from ackproof_spark.forensics.segments import CODECS, HEADER, OVERHEAD

_CODEC_BITS = 0x07
_LOG_APPEND_TIME = 0x08
#: snappy-java's framing: magic, version, compatible version; then length-prefixed blocks.
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16


class Record(NamedTuple):
    """One record; `timestamp` in milliseconds since 1970."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def records(batch: bytes) -> Iterator[Record]:
    """Yield the records of one whole batch of magic 2.

    Raises `AnalysisError` if it is older, compressed in an unknown way, or damaged.
    """
    if len(batch) < OVERHEAD.size + HEADER.size or batch[OVERHEAD.size + 4] != 2:
        raise AnalysisError("only whole batches of magic 2 (Kafka 0.11 and later) can be unpacked")
    base_offset, _ = OVERHEAD.unpack_from(batch)
    _, _, _, attributes, _, base_time, max_time, _, _, _, count = HEADER.unpack_from(
        batch, OVERHEAD.size
    )
    packed = batch[OVERHEAD.size + HEADER.size :]
    try:
        data = memoryview(_decompress(attributes & _CODEC_BITS, packed))
        at = 0
        for _ in range(count):
            length, at = _varint(data, at)
            end = at + length
            if end > len(data):
                raise IndexError("a record is longer than its batch")
            yield _record(data[at:end], base_offset, base_time, max_time, attributes)
            at = end
    except (IndexError, ValueError, OSError, EOFError, struct.error, zlib.error) as error:
        raise AnalysisError(f"the batch at offset {base_offset} is damaged: {error}") from error


def _record(
    data: memoryview, base_offset: int, base_time: int, max_time: int, attributes: int
) -> Record:
    time_delta, at = _varint(data, 1)  # after the record's own attributes, which are unused
    offset_delta, at = _varint(data, at)
    key, at = _bytes(data, at)
    value, at = _bytes(data, at)
    count, at = _varint(data, at)
    headers = []
    for _ in range(count):
        name, at = _bytes(data, at)
        content, at = _bytes(data, at)
        headers.append(((name or b"").decode(errors="replace"), content))
    return Record(
        offset=base_offset + offset_delta,
        timestamp=max_time if attributes & _LOG_APPEND_TIME else base_time + time_delta,
        key=key,
        value=value,
        headers=tuple(headers),
    )


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def _bytes(data: memoryview, at: int) -> tuple[bytes | None, int]:
    length, at = _varint(data, at)
    if length < 0:
        return None, at
    if at + length > len(data):
        raise IndexError("a field is longer than its record")
    return bytes(data[at : at + length]), at + length


def _decompress(codec: int, packed: bytes) -> bytes:
    if codec >= len(CODECS):
        raise ValueError(f"compression {codec} is not one of Kafka's")
    return _DECOMPRESS[CODECS[codec]](packed)


def _snappy(packed: bytes) -> bytes:
    """Return the content of snappy-java's stream, or of one raw block as other clients write it."""
    if not packed.startswith(_XERIAL):
        return _snappy_block(packed)
    parts, at = [], _XERIAL_HEADER
    while at < len(packed):
        (length,) = struct.unpack_from(">i", packed, at)
        at += 4
        parts.append(_snappy_block(packed[at : at + length]))
        at += length
    return b"".join(parts)


def _snappy_block(block: bytes) -> bytes:
    import pyarrow as pa

    size = shift = 0  # a raw block starts with its uncompressed size, an unsigned varint
    for byte in block:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return bytes(pa.Codec("snappy").decompress(block, decompressed_size=size))


def _stream(codec: str) -> Callable[[bytes], bytes]:
    def decompress(packed: bytes) -> bytes:
        import pyarrow as pa

        with pa.CompressedInputStream(pa.BufferReader(packed), codec) as stream:
            return bytes(stream.read())

    return decompress


_DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "none": lambda packed: packed,
    "gzip": gzip.decompress,
    "snappy": _snappy,
    "lz4": _stream("lz4"),
    "zstd": _stream("zstd"),
}
