"""The share consumer, with a fake of librdkafka's, whose mock cluster has no share groups."""

from __future__ import annotations

import os
import signal
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from ackproof.clients import share_consumer
from ackproof.clients.shared_page import Order, ProgressPage
from ackproof.clients.specs import ShareSpec
from ackproof.ledger import arrow_stream, conversion
from ackproof_spark.record import encoder
from ackproof_spark.tables import LOCATION
from support.client_specs import consumer_spec

EXPIRED = KafkaException(KafkaError(KafkaError.INVALID_RECORD_STATE))


class Message:
    def __init__(self, offset: int, count: int) -> None:
        self.offset, self.delivery_count = (lambda: offset), (lambda: count)
        self._value = encoder(run_id="run-1", producer=0, size=40)(offset)

    def partition(self) -> int:
        return 0

    def value(self) -> bytes:
        return self._value

    def key(self) -> bytes:
        return b"order-%d" % self.offset()

    def headers(self) -> list[tuple[str, bytes]]:
        return [("ackproof-id", b"%d" % self.offset())]

    def error(self) -> None:
        return None


class FakeConsumer:
    """Returns `batches`, a poll each, and `refusal` to every commit, in explicit mode."""

    def __init__(self, *batches: list[Message], refusal: KafkaException | None = None) -> None:
        self._batches, self._refusal = list(batches), refusal
        self._open: list[Message] = []
        self.at_end = lambda: None
        self.acknowledged: list[int] = []
        self.settings: dict[str, Any] = {}
        self.on_commit: Any = None

    def __call__(self, settings: dict[str, Any]) -> FakeConsumer:
        self.settings = settings
        return self

    def set_acknowledgement_commit_callback(self, callback: Any) -> None:
        self.on_commit = callback

    def subscribe(self, topics: list[str]) -> None:
        assert topics == ["orders"]

    def poll(self, timeout: float) -> list[Message]:
        if self.settings["share.acknowledgement.mode"] == "implicit" and self._open:
            self.on_commit(
                {TopicPartition("orders", 0): {one.offset() for one in self._open}}, None
            )
        if not self._batches:
            self.at_end()
            return []
        self._open = self._batches.pop(0)
        return self._open

    def acknowledge(self, message: Message, kind: int) -> None:
        self.acknowledged.append(message.offset())

    def commit_sync(self, timeout: float) -> dict[TopicPartition, KafkaException | None]:
        return {TopicPartition("orders", 0): self._refusal}

    def close(self) -> None:
        self._open = []


def run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fake: FakeConsumer,
    *words: str,
    slow_ms: int = 0,
    **more: Any,
) -> dict[str, list[dict[str, Any]]]:
    """Run a share consumer until its batches end; return the tables that it leaves."""
    tables = ("acquisitions", "acknowledgements")
    files = {one: arrow_stream.stream_path(tmp_path, one, "consumer-0") for one in tables}
    spec = consumer_spec(
        tmp_path, group="workers", share=ShareSpec(acknowledge=words, **files), **more
    )
    page = ProgressPage(spec.progress, create=True)
    if slow_ms:
        page.give(Order.SLOW, milliseconds=slow_ms)
    fake.at_end = lambda: setattr(page, "stop", True)
    monkeypatch.setattr(share_consumer, "ShareConsumer", fake)
    try:
        share_consumer.ShareLoop(spec, page, {}).run()
    finally:
        conversion.close(tmp_path)
        recorded = (*tables, "effects", "consumer_events")
        rows = {one: pq.read_table(tmp_path / LOCATION[one]).to_pylist() for one in recorded}
    assert page.read().sent == len(rows["acquisitions"])
    assert page.read().acked == len(rows["effects"])
    return rows


def test_records_are_processed_if_they_are_accepted_by_their_offset(tmp_path, monkeypatch):
    again = [Message(1, 2)]
    fake = FakeConsumer([Message(0, 1), Message(1, 1), Message(2, 1)], again)
    rows = run(tmp_path, monkeypatch, fake, "accept", "release", "reject")
    got = [(one["offset"], one["delivery_count"]) for one in rows["acquisitions"]]
    assert got == [(0, 1), (1, 1), (2, 1), (1, 2)]
    assert [one["offset"] for one in rows["effects"]] == [0]
    asked = [(one["offset"], one["kind"], one["error"]) for one in rows["acknowledgements"]]
    kinds = [(0, "accept"), (1, "release"), (2, "reject"), (1, "release")]
    assert asked == [(offset, kind, None) for offset, kind in kinds]
    assert all(one["answered_at"] >= one["asked_at"] for one in rows["acknowledgements"])
    names = {(one["producer"], one["sequence"]) for one in rows["acknowledgements"]}
    assert names == {(0, 0), (0, 1), (0, 2)}


def test_records_of_an_application_are_recorded_with_their_identities(tmp_path, monkeypatch):
    stream = arrow_stream.stream_path(tmp_path, "read_identities", "consumer-0")
    fake = FakeConsumer([Message(0, 1), Message(1, 1)], [Message(2, 1)])
    of_records = {"identities": stream, "id_header": "ackproof-id"}
    rows = run(tmp_path, monkeypatch, fake, "accept", **of_records)["acquisitions"]
    parts = pq.read_table(tmp_path / LOCATION["read_identities"]).to_pylist()
    delivery = ("consumer", "group", "poll", "number")
    assert [[one[name] for name in delivery] for one in parts] == [
        [one[name] for name in delivery] for one in rows
    ]
    hashes = [(one["id"], one["digest"], one["key"]) for one in parts]
    assert hashes == [
        tuple(
            sha256(part).hexdigest() for part in (b"%d" % n, Message(n, 1).value(), b"order-%d" % n)
        )
        for n in range(3)
    ]


def test_a_refusal_has_its_name(tmp_path, monkeypatch):
    fake = FakeConsumer([Message(0, 1)], refusal=EXPIRED)
    (asked,) = run(tmp_path, monkeypatch, fake, "accept")["acknowledgements"]
    assert asked["error"] == "INVALID_RECORD_STATE"


def test_the_callback_answers_an_implicit_acceptance(tmp_path, monkeypatch):
    rows = run(tmp_path, monkeypatch, FakeConsumer([Message(0, 1)], [Message(1, 1)]))
    assert [one["kind"] for one in rows["acknowledgements"]] == ["accept"] * 2
    assert all(one["answered_at"] for one in rows["acknowledgements"])
    assert len(rows["effects"]) == 2


def test_a_commit_without_an_answer_leaves_the_acknowledgement_open(tmp_path, monkeypatch):
    fake = FakeConsumer([Message(0, 1)])
    refusal = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    monkeypatch.setattr(fake, "commit_sync", lambda _: (_ for _ in ()).throw(refusal))
    rows = run(tmp_path, monkeypatch, fake, "accept")
    (asked,) = rows["acknowledgements"]
    assert (asked["answered_at"], asked["error"]) == (None, None)
    assert "commit-failed" in [one["event"] for one in rows["consumer_events"]]


def test_a_crash_leaves_half_of_a_poll_processed_and_nothing_acknowledged(tmp_path, monkeypatch):
    def kill(pid: int, number: int) -> None:
        assert (pid, number) == (os.getpid(), signal.SIGKILL)
        raise ProcessLookupError

    monkeypatch.setattr(share_consumer.os, "kill", kill)
    fake = FakeConsumer([Message(0, 1), Message(1, 1)])
    with pytest.raises(ProcessLookupError):
        run(tmp_path, monkeypatch, fake, "accept", crash_after=2)
    counts = Counter(
        {
            table: pq.read_table(tmp_path / LOCATION[table]).num_rows
            for table in ("acquisitions", "effects", "acknowledgements")
        }
    )
    assert counts == {"acquisitions": 2, "effects": 1, "acknowledgements": 0}


def test_a_slow_consumer_counts_that_it_was_slow(tmp_path, monkeypatch):
    slept: list[float] = []
    monkeypatch.setattr(share_consumer.time, "sleep", slept.append)
    run(tmp_path, monkeypatch, FakeConsumer([Message(0, 1)]), "accept", slow_ms=6000)
    assert slept == [6.0]
