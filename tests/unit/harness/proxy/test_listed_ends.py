"""Requests for the ends of partitions, written field by field, and what brokers answer."""

from __future__ import annotations

import struct

import pytest

from ackproof.proxy.listed_ends import ListedEnds

VERSIONS = [5, 6, 7, 10]
LATEST, EARLIEST = -1, -2


def texts(version: int, text: bytes) -> bytes:
    return bytes([len(text) + 1]) + text if version >= 6 else struct.pack(">h", len(text)) + text


def length(version: int, count: int) -> bytes:
    return bytes([count + 1]) if version >= 6 else struct.pack(">i", count)


def tags(version: int) -> bytes:
    return b"\0" if version >= 6 else b""


def request(version: int, timestamp: int, *, replica: int = -1, isolation: int = 0) -> bytes:
    head = struct.pack(">hhih", 2, version, 42, 6) + b"reader" + tags(version)
    partition = struct.pack(">iiq", 3, 1, timestamp) + tags(version)
    topic = texts(version, b"orders") + length(version, 1) + partition + tags(version)
    rest = (struct.pack(">i", 1000) if version >= 10 else b"") + tags(version)
    return head + struct.pack(">ib", replica, isolation) + length(version, 1) + topic + rest


def response(version: int, end: int, *, error: int = 0) -> bytes:
    partition = struct.pack(">ihqqi", 3, error, -1, end, 1) + tags(version)
    topic = texts(version, b"orders") + length(version, 1) + partition + tags(version)
    head = struct.pack(">i", 42) + tags(version) + struct.pack(">i", 0)
    return head + length(version, 1) + topic + tags(version)


def answers(version: int, asked: bytes, answered: bytes) -> list[tuple[int, str, int, int]]:
    ends = ListedEnds()
    ends.request(2, "reader", 42, version, asked)
    ends.response(2, "reader", 42, version, answered)
    return [(one.broker, one.topic, one.partition, one.end) for one in ends.answers]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_end_that_a_broker_answers_is_kept(version: int) -> None:
    found = answers(version, request(version, LATEST), response(version, 120))
    assert found == [(2, "orders", 3, 120)]


@pytest.mark.parametrize("version", VERSIONS)
def test_other_requests_and_refusals_say_nothing_of_the_end(version: int) -> None:
    answer = response(version, 120)
    assert not answers(version, request(version, EARLIEST), answer)
    assert not answers(version, request(version, LATEST, replica=3), answer)
    assert not answers(version, request(version, LATEST, isolation=1), answer)
    assert not answers(version, request(version, LATEST), response(version, -1, error=78))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_truncated_message_is_ignored(version: int) -> None:
    asked, answered = request(version, LATEST), response(version, 120)
    for size in range(8, len(asked) - 1):
        assert len(answers(version, asked[:size], answered)) <= 1
    for size in range(4, len(answered) - 12):
        assert not answers(version, asked, answered[:size])


def test_versions_before_a_new_leader_had_to_wait_are_not_read() -> None:
    assert not answers(4, request(5, LATEST), response(5, 120))
