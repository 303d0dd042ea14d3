"""Ends of partitions that brokers told clients: answers to ListOffsets for the latest offset.

With acks=all such an end, read uncommitted, never lies at or below an offset that was acked before
the client asked: a new leader answers only once its high watermark has reached the start of its
epoch (KIP-207, version 5 and later). The judge compares them with the acks.

Schemas: `ListOffsetsRequest.json` and `ListOffsetsResponse.json`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from ackproof.proxy.fields import Fields

API_KEY = 2
_READABLE = range(5, 12)
#: From this version on: compact lengths and tagged fields.
_FLEXIBLE = 6
_OF_A_CLIENT, _UNCOMMITTED, _LATEST = -1, 0, -1

#: How many are kept. Clients ask when they begin, and when an offset is out of range.
_MOST = 10_000

#: A topic's name and the number of the partition.
Place = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedEnd:
    """The end of a partition, read uncommitted, by a broker's answer to a client.

    at: when the client asked.
    """

    at: datetime
    broker: int
    topic: str
    partition: int
    end: int


class ListedEnds:
    """The requests that wait for an answer, and what was answered."""

    def __init__(self) -> None:
        self._asked: dict[tuple[int, str, int], tuple[datetime, list[Place]]] = {}
        self.answers: list[ListedEnd] = []

    def request(
        self, broker: int, client: str, correlation_id: int, version: int, message: bytes
    ) -> None:
        """Note which ends a client asks for; ignore unreadable messages."""
        if version in _READABLE and (places := _readable(_requested(message, version))):
            wanted = [place for place, _ in places]
            self._asked[broker, client, correlation_id] = datetime.now(UTC), wanted

    def response(
        self, broker: int, client: str, correlation_id: int, version: int, message: bytes
    ) -> None:
        """Note the ends that a broker answers without an error."""
        at, wanted = self._asked.pop((broker, client, correlation_id), (None, []))
        if at is None:
            return
        for (topic, partition), end in _readable(_answered(message, version)):
            if (topic, partition) in wanted and len(self.answers) < _MOST:
                self.answers.append(
                    ListedEnd(at=at, broker=broker, topic=topic, partition=partition, end=end)
                )


def _readable(rows: Iterator[tuple[Place, int]]) -> list[tuple[Place, int]]:
    """Return the rows of a message; none if it ends too early."""
    try:
        return list(rows)
    except (struct.error, IndexError, UnicodeDecodeError):
        return []


def _requested(message: bytes, version: int) -> Iterator[tuple[Place, int]]:
    """Yield the partitions whose latest offset a client asks for, with its timestamp."""
    fields = Fields(bytearray(message), flexible=False)
    fields.skip(8)  # API key, version and correlation id
    fields.text()  # the client id, whose length is never compact
    fields = Fields(fields.content, flexible=version >= _FLEXIBLE, at=fields.at)
    fields.tags()
    replica, isolation = fields.number("i"), fields.number("b")
    for _ in range(fields.length()):
        topic = fields.text().decode()
        for _ in range(fields.length()):
            partition = fields.number("i")
            fields.skip(4)  # the leader epoch that it knows
            timestamp = fields.number("q")
            fields.tags()
            if (replica, isolation, timestamp) == (_OF_A_CLIENT, _UNCOMMITTED, _LATEST):
                yield (topic, partition), timestamp
        fields.tags()


def _answered(message: bytes, version: int) -> Iterator[tuple[Place, int]]:
    """Yield partitions without an error, and their offsets."""
    fields = Fields(bytearray(message), flexible=version >= _FLEXIBLE)
    fields.skip(4)  # the correlation id
    fields.tags()
    fields.skip(4)  # throttle time
    for _ in range(fields.length()):
        topic = fields.text().decode()
        for _ in range(fields.length()):
            partition, error = fields.number("i"), fields.number("h")
            fields.skip(8)  # timestamp
            offset = fields.number("q")
            fields.skip(4)  # leader epoch
            fields.tags()
            if error == 0:
                yield (topic, partition), offset
        fields.tags()
