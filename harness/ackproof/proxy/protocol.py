"""Kafka's framing: the part of requests and responses that the proxy reads.

A message is a length (int32) and that number of bytes. A request begins with API key (int16), API
version (int16), correlation id (int32) and client id (nullable string); a response with the
correlation id. This is the same in every version (`RequestHeader.json`, `ResponseHeader.json`).
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from dataclasses import dataclass

_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">ihhih")
_RESPONSE = struct.Struct(">ii")
#: `socket.request.max.bytes` is 100 MiB by default. The first bytes of TLS look like more.
_MAX_LENGTH = 200 << 20


class FramingError(ValueError):
    """The bytes are not Kafka's protocol; they may be TLS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeader:
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str


class Framer:
    """Splits a stream of bytes into whole messages, with their lengths."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that are complete now; raise FramingError for an invalid length."""
        self._rest += data
        messages: list[bytes] = []
        at = 0
        while len(self._rest) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._rest, at)
            if not 0 < length < _MAX_LENGTH:
                raise FramingError(f"a message of {length} bytes")
            end = at + _LENGTH.size + length
            if end > len(self._rest):
                break
            messages.append(bytes(self._rest[at:end]))
            at = end
        del self._rest[:at]
        return messages


def request_header(message: bytes) -> RequestHeader:
    """Return a request's header; raise FramingError if the message is too short."""
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
    """Return the correlation id of a response; raise FramingError if the message is too short."""
    if len(response) < _RESPONSE.size:
        raise FramingError(f"a response of {len(response)} bytes")
    return int(_RESPONSE.unpack_from(response)[1])


class Pending:
    """The requests of one connection that have no response yet.

    A broker answers a connection's requests in order. A request that is older than an answered one
    gets no response (Produce with acks=0).
    """

    def __init__(self) -> None:
        self._requests: OrderedDict[int, RequestHeader] = OrderedDict()

    def sent(self, header: RequestHeader) -> None:
        self._requests[header.correlation_id] = header

    def answered(self, correlation: int) -> RequestHeader | None:
        """Remove and return the request of this response; None for a second response."""
        if correlation not in self._requests:
            return None
        while True:
            number, header = self._requests.popitem(last=False)
            if number == correlation:
                return header
