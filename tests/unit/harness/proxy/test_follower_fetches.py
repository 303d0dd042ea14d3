"""Fetches of several versions, written field by field, and the high watermarks that they refute."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest

from ackproof.proxy.follower_fetches import FollowerFetches, topic_id

TOPIC = UUID(int=7)
VERSIONS = [12, 13, 15, 17, 18]


def topic(version: int) -> bytes:
    return TOPIC.bytes if version >= 13 else b"\7orders"


def request(version: int, *, epoch: int, offset: int, follower: int = 1) -> bytes:
    client = f"broker-{follower}-fetcher-0".encode()
    head = struct.pack(">hhih", 1, version, 42, len(client)) + client + b"\0"
    replica = b"" if version >= 15 else struct.pack(">i", follower)
    # The follower's own high watermark and directory are tagged fields.
    tags = b"\1\1\x08" + bytes(8) if version >= 17 else b"\0"
    partition = struct.pack(">iiqiqi", 3, epoch, offset, epoch, 0, 1000) + tags
    body = struct.pack(">iiibii", 500, 1, 1000, 0, 9, 1)
    topics = b"\2" + topic(version) + b"\2" + partition + b"\0"
    return head + replica + body + topics + b"\1\1\0"


def response(version: int, *, high_watermark: int, error: int = 0) -> bytes:
    head = struct.pack(">i", 42) + b"\0" + struct.pack(">ihi", 0, 0, 9)
    partition = struct.pack(">ihqqq", 3, error, high_watermark, high_watermark, 0)
    partition += b"\2" + bytes(16) + b"\0" + struct.pack(">i", -1) + b"\5abcd" + b"\0"
    return head + b"\2" + topic(version) + b"\2" + partition + b"\0\0"


def fetched(fetches: FollowerFetches, follower: int, version: int = 17, **asked: int) -> None:
    message = request(version, follower=follower, **asked)
    fetches.request(3, f"broker-{follower}-fetcher-0", version, message)


def told(fetches: FollowerFetches, follower: int, version: int = 17, **answered: int) -> None:
    message = response(version, **answered)
    fetches.response(3, f"broker-{follower}-fetcher-0", version, message)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_high_watermark_above_what_another_follower_has_fetched_is_reported(version: int) -> None:
    fetches = FollowerFetches()
    fetched(fetches, 1, version, epoch=2, offset=393)
    fetched(fetches, 2, version, epoch=2, offset=400)
    told(fetches, 2, version, high_watermark=393)
    assert fetches.early == []
    told(fetches, 2, version, high_watermark=400)
    told(fetches, 2, version, high_watermark=401)
    (early, own) = fetches.early
    assert (early.leader, early.follower, early.partition, early.leader_epoch) == (3, 1, 3, 2)
    assert (early.fetched, early.high_watermark) == (393, 400)
    assert early.topic == ("orders" if version < 13 else str(TOPIC))
    assert (own.follower, own.fetched, own.high_watermark) == (2, 400, 401)


def test_a_fetch_below_the_high_watermark_is_reported() -> None:
    fetches = FollowerFetches()
    fetched(fetches, 2, epoch=2, offset=400)
    told(fetches, 2, high_watermark=400)
    fetched(fetches, 1, epoch=2, offset=393)
    assert [(one.follower, one.fetched) for one in fetches.early] == [(1, 393)]


def test_a_follower_that_has_caught_up_may_be_behind_again() -> None:
    fetches = FollowerFetches()
    fetched(fetches, 2, epoch=2, offset=400)
    told(fetches, 2, high_watermark=400)
    for offset in (0, 393, 400, 394):
        fetched(fetches, 1, epoch=2, offset=offset)
    assert [(one.follower, one.fetched) for one in fetches.early] == [(1, 0), (1, 394)]


def test_other_epochs_errors_and_clients_show_nothing() -> None:
    fetches = FollowerFetches()
    fetched(fetches, 1, epoch=1, offset=393)
    fetched(fetches, 2, epoch=2, offset=400)
    told(fetches, 2, high_watermark=400)
    told(fetches, 1, high_watermark=500, error=6)
    fetches.request(3, "consumer-1", 17, request(17, epoch=2, offset=0))
    fetches.request(3, "broker-1-fetcher-0", 11, request(17, epoch=2, offset=0))
    assert fetches.early == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_truncated_message_is_ignored(version: int) -> None:
    fetches = FollowerFetches()
    for message in (request(version, epoch=2, offset=0), response(version, high_watermark=9)):
        for size in range(len(message) - 4):
            fetches.request(3, "broker-1-fetcher-0", version, message[:size])
            fetches.response(3, "broker-1-fetcher-0", version, message[:size])
    assert fetches.early == []


def test_an_id_is_written_as_kafka_writes_it_or_as_fetches_have_it() -> None:
    assert topic_id("AAAAAAAAAAAAAAAAAAAABw") == str(TOPIC)
    assert topic_id("") == ""
