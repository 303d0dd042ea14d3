"""Requests and responses of several versions, written field by field."""

from __future__ import annotations

import struct

import pytest

from ackproof.proxy.errors import refused, with_error


def compact(content: bytes) -> bytes:
    return bytes([len(content) + 1]) + content


def partition(version: int, code: int) -> bytes:
    body = struct.pack(">ihq", 7, code, 1234)
    body += struct.pack(">q", -1) * ((version >= 2) + (version >= 5))
    if version == 8:
        body += struct.pack(">iih3sh", 1, 5, 3, b"why", -1)
    if version >= 9:
        # One record error; a message; the current leader in a tagged field.
        body += bytes([2]) + struct.pack(">i", 5) + compact(b"why") + b"\0" + compact(b"all")
        body += bytes([1, 0, 9]) + bytes(9)
    return body


def response(version: int, code: int) -> bytes:
    parts = [partition(version, code)] * 2
    flexible = version >= 9
    name = b"t" * 16 if version >= 13 else compact(b"orders") if flexible else b"\0\6orders"
    count = bytes([3]) if flexible else struct.pack(">i", 2)
    topic = name + count + b"".join(parts) + b"\0" * flexible
    topics = (bytes([2]) if flexible else struct.pack(">i", 1)) + topic
    head = struct.pack(">i", 42) + b"\0" * flexible
    return head + topics + struct.pack(">i", 0) + b"\0" * flexible


@pytest.mark.parametrize("version", [0, 2, 3, 5, 8, 9, 10, 12, 13])
def test_every_partition_gets_the_error_and_nothing_else_changes(version: int) -> None:
    assert with_error("Produce", response(version, 0), version, 6) == response(version, 6)


@pytest.mark.parametrize("version", [3, 8, 9, 13])
def test_a_truncated_response_is_left_alone(version: int) -> None:
    whole = response(version, 0)
    end = len(whole) - 4 - (version >= 9)  # the throttle time is not read
    assert all(
        with_error("Produce", whole[:size], version, 6) is None for size in range(4, end - 10)
    )


def test_an_unknown_version_is_left_alone() -> None:
    assert with_error("Produce", response(13, 0), 14, 6) is None


def request(version: int, acks: int, transactional_id: bytes | None = b"t") -> bytes:
    name = transactional_id or b""
    if version >= 9:
        transactional = compact(name) if transactional_id else b"\0"
    else:
        transactional = struct.pack(">h", len(name) if transactional_id else -1) + name
    head = struct.pack(">hhih", 0, version, 42, 3) + b"c-1" + b"\0" * (version >= 9)
    return head + transactional * (version >= 3) + struct.pack(">hi", acks, 1500) + b"topics"


@pytest.mark.parametrize("version", [0, 2, 3, 8, 9, 13])
@pytest.mark.parametrize("transactional_id", [None, b"t"])
def test_a_refused_request_has_invalid_acks(version: int, transactional_id: bytes | None) -> None:
    sent = request(version, -1, transactional_id)
    assert refused(sent, version) == request(version, 2, transactional_id)
    assert refused(request(version, 0, transactional_id), version) is None  # it gets no answer
    assert refused(sent[:10], version) is None
    assert refused(sent, 14) is None


@pytest.mark.parametrize(
    ("api", "version", "before"),
    [
        ("Heartbeat", 0, b""),
        ("Heartbeat", 3, b"\0\0\0\5"),
        ("EndTxn", 2, b"\0\0\0\5"),
        ("EndTxn", 3, b"\0" + b"\0\0\0\5"),
        ("ConsumerGroupHeartbeat", 0, b"\0" + b"\0\0\0\5"),
        ("ShareGroupHeartbeat", 1, b"\0" + b"\0\0\0\5"),
    ],
)
def test_a_coordinators_answer_gets_the_error(api: str, version: int, before: bytes) -> None:
    head = struct.pack(">i", 42) + before
    found = with_error(api, head + b"\0\0rest", version, 16)
    assert found == head + struct.pack(">h", 16) + b"rest"
    assert with_error(api, head, version, 16) is None
