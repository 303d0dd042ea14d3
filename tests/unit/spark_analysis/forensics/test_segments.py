"""The segment reader, compared with Kafka's own tool on real segments; and damaged segments."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from ackproof_spark.forensics.segments import Tail, batches
from segment_files import batch, message

HERE = Path(__file__).parent
#: A few batches of a real segment (Kafka 4.3.1), and the lines of its DumpLogSegments about them.
REAL = (HERE / "batches_4.3.1.log").read_bytes()
DUMPED = json.loads((HERE / "batches_4.3.1.json").read_text())


def read(data: bytes, size: int | None = None):
    tail = Tail()
    found = list(batches(io.BytesIO(data), size=len(data) if size is None else size, tail=tail))
    return found, tail


def as_dumped(header) -> dict[str, str]:
    return {
        "baseOffset": str(header.base_offset),
        "lastOffset": str(header.last_offset),
        "count": str(header.records),
        "baseSequence": str(header.base_sequence),
        "producerId": str(header.producer_id),
        "producerEpoch": str(header.producer_epoch),
        "partitionLeaderEpoch": str(header.leader_epoch),
        "isTransactional": str(header.transactional).lower(),
        "isControl": str(header.control).lower(),
        "position": str(header.position),
        "CreateTime": str(header.max_timestamp),
        "size": str(header.size),
        "magic": str(header.magic),
        "compresscodec": header.codec,
        "crc": str(header.crc),
        "isvalid": str(header.crc_ok).lower(),
    }


def test_real_batches_read_as_kafkas_own_tool_reads_them() -> None:
    found, tail = read(REAL)
    expected = [{key: line[key] for key in as_dumped(found[0])} for line in DUMPED]
    assert [as_dumped(one) for one in found] == expected
    assert tail.torn == 0
    assert {one.codec for one in found} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {one.control for one in found} == {True, False}


@pytest.mark.parametrize("byte", [21, 40, 61, -1])
def test_a_flipped_byte_breaks_the_checksum_and_nothing_else(byte: int) -> None:
    data = bytearray(batch(0, count=3) + batch(3))
    data[byte if byte >= 0 else len(batch(0)) - 1] ^= 1
    found, tail = read(bytes(data))
    assert [one.crc_ok for one in found] == [False, True]
    assert tail.torn == 0


def test_the_checksum_does_not_cover_fields_that_brokers_set() -> None:
    data = bytearray(batch(0))
    data[15] = 7  # the leader epoch's last byte
    (changed,) = read(bytes(data))[0]
    assert (changed.leader_epoch, changed.crc_ok) == (7, True)


@pytest.mark.parametrize("left", [1, 11, 12, 40, 60, len(batch(3)) - 1])
def test_a_torn_tail_is_dropped_and_reported(left: int) -> None:
    whole = batch(0, count=3)
    found, tail = read(whole + batch(3)[:left])
    assert [one.last_offset for one in found] == [2]
    assert tail.torn == left
    assert tail.reason == f"a batch is cut short at byte {len(whole)}"


def test_a_file_is_read_up_to_its_size_and_no_further() -> None:
    found, tail = read(batch(0) + batch(1), size=len(batch(0)) + 20)
    assert ([one.last_offset for one in found], tail.torn) == ([0], 20)


@pytest.mark.parametrize("rubbish", [bytes(100), b"\xff" * 100, b"not a batch at all" * 9])
def test_bytes_that_are_no_batch_end_the_log(rubbish: bytes) -> None:
    found, tail = read(batch(0) + rubbish)
    assert len(found) == 1
    assert tail.torn == len(rubbish)


def test_a_length_beyond_the_file_is_never_allocated() -> None:
    data = bytearray(batch(0))
    data[8:12] = b"\x7f\xff\xff\xff"
    assert read(bytes(data))[1].torn == len(data)
    found, tail = read(bytes(data), size=2**31 + 100)  # a size that lies, as a file's cut can
    assert (found, tail.reason) == ([], "a batch is cut short at byte 0")


@pytest.mark.parametrize("magic", [0, 1])
def test_older_message_sets_are_read_message_by_message(magic: int) -> None:
    data = message(4, magic=magic) + message(9, magic=magic, attributes=1)
    found, _ = read(data)
    assert [(one.base_offset, one.magic, one.crc_ok) for one in found] == [
        (4, magic, True),
        (9, magic, True),
    ]
    assert [(one.codec, one.records) for one in found] == [("none", 1), ("gzip", None)]
    assert {one.leader_epoch for one in found} == {-1}
    assert found[0].max_timestamp == (3000 if magic else -1)
    broken = bytearray(data)
    broken[len(message(4, magic=magic)) - 1] ^= 1
    assert [one.crc_ok for one in read(bytes(broken))[0]] == [False, True]
