from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.proxy.protocol import (
    Framer,
    FramingError,
    Pending,
    RequestHeader,
    correlation_id,
    request_header,
)


def request(key: int, correlation: int, client: str | None = "c", body: bytes = b"") -> bytes:
    name = b"" if client is None else client.encode()
    length = -1 if client is None else len(name)
    head = struct.pack(">hhih", key, 9, correlation, length)
    return struct.pack(">i", len(head + name + body)) + head + name + body


def response(correlation: int, body: bytes = b"") -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation) + body


@given(
    bodies=st.lists(st.binary(max_size=50), max_size=6),
    cuts=st.lists(st.integers(min_value=1, max_value=20), min_size=1, max_size=50),
)
def test_messages_are_whole_for_any_split(bodies: list[bytes], cuts: list[int]) -> None:
    messages = [request(0, number, body=body) for number, body in enumerate(bodies)]
    stream, framer, found, at = b"".join(messages), Framer(), [], 0
    for length in [*cuts, len(stream)]:
        found += framer.feed(stream[at : at + length])
        at += length
    found += framer.feed(stream[at:])
    assert found == messages


@pytest.mark.parametrize("first", [b"\x16\x03\x01\x02\x00", struct.pack(">i", -1), b"\0\0\0\0"])
def test_an_invalid_length_is_an_error(first: bytes) -> None:
    with pytest.raises(FramingError):
        Framer().feed(first + b"\xff" * 4)


def test_headers_are_parsed() -> None:
    assert request_header(request(26, 7, "p-1", b"body")) == RequestHeader(
        api_key=26, api_version=9, correlation_id=7, client_id="p-1"
    )
    assert request_header(request(3, 1, None)).client_id == ""
    assert correlation_id(response(9, b"x")) == 9
    with pytest.raises(FramingError):
        request_header(b"\0\0\0\1x")


def test_a_response_belongs_to_one_request() -> None:
    pending = Pending()
    headers = [request_header(request(0, number)) for number in range(4)]
    for header in headers:
        pending.sent(header)
    assert pending.answered(1) == headers[1]  # request 0 gets no response
    assert pending.answered(0) is None
    assert pending.answered(1) is None
    assert pending.answered(3) == headers[3]
