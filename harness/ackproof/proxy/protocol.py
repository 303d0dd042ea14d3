"""Kafka's framing: what a proxy must understand of requests and responses to tell them apart.

A message is its length (int32) and so many bytes. A request begins with API key (int16), API
version (int16), correlation id (int32) and client id (nullable string); a response with its
correlation id.
It is the same in every version (`RequestHeader.json`, `ResponseHeader.json`).
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from dataclasses import dataclass

_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">ihhih")
_RESPONSE = struct.Struct(">ii")
#: `socket.request.max.bytes` is 100 MiB by default; TLS would begin with a longer one.
_LONGEST = 200 << 20


class FramingError(ValueError):
    """What came is not Kafka's protocol (TLS, for one)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeader:
    """What a request says of itself."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str


class Framer:
    """Cuts a stream of bytes into whole messages, length included."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that are complete now; raise FramingError for what is none."""
        self._rest += data
        found: list[bytes] = []
        at = 0
        while len(self._rest) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._rest, at)
            if not 0 < length < _LONGEST:
                raise FramingError(f"a message of {length} bytes")
            end = at + _LENGTH.size + length
            if end > len(self._rest):
                break
            found.append(bytes(self._rest[at:end]))
            at = end
        del self._rest[:at]
        return found


def request_header(message: bytes) -> RequestHeader:
    """Return a request's header; raise FramingError if it is too short for one."""
    if len(message) < _REQUEST.size:
        raise FramingError(f"a request of {len(message)} bytes")
    _, key, version, correlation_id, length = _REQUEST.unpack_from(message)
    name = message[_REQUEST.size : _REQUEST.size + max(0, length)]
    return RequestHeader(
        api_key=key,
        api_version=version,
        correlation_id=correlation_id,
        client_id=name.decode(errors="replace"),
    )


def correlation_id(response: bytes) -> int:
    """Return which request a response answers."""
    if len(response) < _RESPONSE.size:
        raise FramingError(f"a response of {len(response)} bytes")
    return int(_RESPONSE.unpack_from(response)[1])


class Pending:
    """The requests of one connection that have no response yet.

    A broker answers a connection's requests in order. So what is older than a request that was
    answered will never be (Produce with acks=0).
    """

    def __init__(self) -> None:
        self._requests: OrderedDict[int, RequestHeader] = OrderedDict()

    def sent(self, header: RequestHeader) -> None:
        """Remember a request."""
        self._requests[header.correlation_id] = header

    def answered(self, correlation: int) -> RequestHeader | None:
        """Return the request of this response; None if there is none (a second answer)."""
        if correlation not in self._requests:
            return None
        while True:
            number, header = self._requests.popitem(last=False)
            if number == correlation:
                return header
