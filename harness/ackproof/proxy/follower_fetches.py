"""Fetches of followers, and high watermarks that leaders have set too early.

A leader's high watermark is at most what every member of the ISR has fetched up to: a follower
asks for the offset behind its last record. The proxy sees both, followers' requests and leaders'
answers, and reports a high watermark of a leader that is above the last fetch offset of a follower
in the same leader epoch. Whether the follower was in the ISR, the judge finds out.

Schemas: `FetchRequest.json` and `FetchResponse.json`, versions 12 to 18 (Kafka 2.7 and later).
"""

from __future__ import annotations

import re
import struct
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from ackproof.proxy.fields import Fields

API_KEY = 1
_READABLE = range(12, 19)
#: From these versions on: topic ids instead of names, no replica id in front.
_TOPIC_IDS, _TAGGED_REPLICA = 13, 15
#: `ReplicaFetcherThread`.
_FETCHER = re.compile(r"broker-(?P<broker>\d+)-fetcher-\d+")

#: How many are reported. A follower that is not in the ISR may be behind again and again.
_MOST = 1000

#: A topic's name, or its id; and the number of the partition.
Place = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyHighWatermark:
    """A leader's high watermark above the last fetch offset of a follower, in one leader epoch."""

    at: datetime
    leader: int
    follower: int
    topic: str
    partition: int
    leader_epoch: int
    fetched: int
    high_watermark: int


class FollowerFetches:
    """The last fetch of each follower from each leader, and the leaders' high watermarks."""

    def __init__(self) -> None:
        self._fetched: dict[tuple[int, Place], dict[int, tuple[int, int]]] = {}
        self._told: dict[tuple[int, Place], tuple[int, int]] = {}
        #: Followers that are behind a high watermark now, by leader, partition and epoch.
        self._behind: set[tuple[int, Place, int, int]] = set()
        #: One for each time that a follower was found behind, at most `_MOST`.
        self.early: list[EarlyHighWatermark] = []

    def request(self, leader: int, client: str, version: int, message: bytes) -> None:
        """Note what a follower fetches; ignore other clients and unreadable messages."""
        if (follower := _follower(client, version)) is None:
            return
        for place, epoch, offset in _readable(_requested(message, version)):
            self._fetched.setdefault((leader, place), {})[follower] = (epoch, offset)
            self._compare(leader, place)

    def response(self, leader: int, client: str, version: int, message: bytes) -> None:
        """Note the high watermarks that a leader tells a follower."""
        if (follower := _follower(client, version)) is None:
            return
        for place, error, high_watermark in _readable(_answered(message, version)):
            asked = self._fetched.get((leader, place), {}).get(follower)
            if error == 0 and asked is not None:
                self._told[leader, place] = (asked[0], high_watermark)
                self._compare(leader, place)

    def _compare(self, leader: int, place: Place) -> None:
        epoch, high_watermark = self._told.get((leader, place), (-1, -1))
        for follower, (fetched_in, offset) in self._fetched[leader, place].items():
            key = (leader, place, epoch, follower)
            if fetched_in != epoch or offset >= high_watermark:
                self._behind.discard(key)
            elif key not in self._behind and len(self.early) < _MOST:
                self._behind.add(key)
                self.early.append(
                    EarlyHighWatermark(
                        at=datetime.now(UTC),
                        leader=leader,
                        follower=follower,
                        topic=place[0],
                        partition=place[1],
                        leader_epoch=epoch,
                        fetched=offset,
                        high_watermark=high_watermark,
                    )
                )


def _follower(client: str, version: int) -> int | None:
    fetcher = _FETCHER.fullmatch(client)
    return int(fetcher["broker"]) if fetcher and version in _READABLE else None


def _readable(rows: Iterator[tuple[Place, int, int]]) -> list[tuple[Place, int, int]]:
    """Return the rows of a message; none if it ends too early."""
    try:
        return list(rows)
    except (struct.error, IndexError, UnicodeDecodeError):
        return []


def _requested(message: bytes, version: int) -> Iterator[tuple[Place, int, int]]:
    """Yield partition, current leader epoch and fetch offset of a request."""
    fields = Fields(bytearray(message), flexible=False)
    fields.skip(8)  # API key, version and correlation id
    fields.text()  # the client id, whose length is never compact
    fields = Fields(fields.content, flexible=True, at=fields.at)
    fields.tags()
    fields.skip(4 * (version < _TAGGED_REPLICA))
    fields.skip(4 + 4 + 4 + 1)  # wait, sizes, isolation level
    fields.skip(4 + 4)  # session
    for _ in range(fields.length()):
        topic = _topic(fields, version)
        for _ in range(fields.length()):
            partition, epoch, offset = fields.number("i"), fields.number("i"), fields.number("q")
            fields.skip(4 + 8 + 4)  # last fetched epoch, begin of the log, size
            fields.tags()
            yield (topic, partition), epoch, offset
        fields.tags()


def _answered(message: bytes, version: int) -> Iterator[tuple[Place, int, int]]:
    """Yield partition, error code and high watermark of a response."""
    fields = Fields(bytearray(message), flexible=True)
    fields.skip(4)  # the correlation id
    fields.tags()
    fields.skip(4 + 2 + 4)  # throttle time, error code, session
    for _ in range(fields.length()):
        topic = _topic(fields, version)
        for _ in range(fields.length()):
            partition, error = fields.number("i"), fields.number("h")
            high_watermark = fields.number("q")
            fields.skip(8 + 8)  # last stable offset, begin of the log
            for _ in range(fields.length()):  # aborted transactions
                fields.skip(8 + 8)
                fields.tags()
            fields.skip(4)  # preferred read replica
            fields.skip(fields.length())  # records
            fields.tags()
            yield (topic, partition), error, high_watermark
        fields.tags()


def topic_id(text: str) -> str:
    """Return the id of a topic, as Kafka writes it (`Uuid.toString`), as this module does."""
    content = urlsafe_b64decode(text + "==") if text else b""
    return str(UUID(bytes=content)) if len(content) == 16 else text


def _topic(fields: Fields, version: int) -> str:
    begin = fields.at
    if version >= _TOPIC_IDS:
        fields.skip(16)
        return str(UUID(bytes=bytes(fields.content[begin : fields.at])))
    length = fields.length()
    begin = fields.at
    fields.skip(length)
    return fields.content[begin : fields.at].decode()
