"""Error codes in responses, and Produce requests that every broker refuses.

Kafka's schemas are `ProduceRequest.json` and `ProduceResponse.json`, versions 0 to 13, and those of
the coordinators' responses with one error code (`ONE_ERROR`).
"""

from __future__ import annotations

import struct

from ackproof.proxy.fields import Fields
from ackproof_faults.interfaces.kafka_proxy import ONE_ERROR

_NEWEST = 13
#: From these versions on: compact lengths and tagged fields, topic ids instead of names.
_FLEXIBLE, _TOPIC_IDS = 9, 13


#: From this version on, a request has a transactional id before its acks.
_TRANSACTIONAL = 3
#: The broker refuses it with INVALID_REQUIRED_ACKS before it appends (`ReplicaManager`).
_INVALID_ACKS = 2


def refused(request: bytes, version: int) -> bytes | None:
    """Return the Produce request with acks that are invalid; None with acks=0 or if unreadable."""
    if version > _NEWEST:
        return None
    fields = Fields(bytearray(request), flexible=False)
    try:
        fields.skip(8)  # API key, version and correlation id
        fields.text()  # the client id, whose length is never compact
        fields = Fields(fields.content, flexible=version >= _FLEXIBLE, at=fields.at)
        fields.tags()
        if version >= _TRANSACTIONAL:
            fields.text()
        (acks,) = struct.unpack_from(">h", fields.content, fields.at)
        struct.pack_into(">h", fields.content, fields.at, _INVALID_ACKS)
    except (struct.error, IndexError):
        return None
    return bytes(fields.content) if acks else None


def with_error(api: str, response: bytes, version: int, code: int) -> bytes | None:
    """Return the response with this error code, for each partition; None if it is not readable."""
    if api == "Produce":
        return _with_errors(response, version, code)
    throttled, flexible = ONE_ERROR[api]
    fields = Fields(bytearray(response), flexible=version >= flexible)
    try:
        fields.skip(4)  # the correlation id
        fields.tags()
        fields.skip(4 * (version >= throttled))
        struct.pack_into(">h", fields.content, fields.at, code)
    except (struct.error, IndexError):
        return None
    return bytes(fields.content)


def _with_errors(response: bytes, version: int, code: int) -> bytes | None:
    if version > _NEWEST:
        return None
    fields = Fields(bytearray(response), flexible=version >= _FLEXIBLE)
    try:
        fields.skip(4)  # the correlation id
        fields.tags()
        for _ in range(fields.length()):
            fields.skip(16) if version >= _TOPIC_IDS else fields.text()
            for _ in range(fields.length()):
                fields.skip(4)
                struct.pack_into(">h", fields.content, fields.at, code)
                # Error code, base offset; time of the append; begin of the log.
                fields.skip(2 + 8 + 8 * (version >= 2) + 8 * (version >= 5))
                if version >= 8:
                    for _ in range(fields.length()):
                        fields.skip(4)
                        fields.text()
                        fields.tags()
                    fields.text()
                fields.tags()
            fields.tags()
    except (struct.error, IndexError):
        return None
    return bytes(fields.content)
