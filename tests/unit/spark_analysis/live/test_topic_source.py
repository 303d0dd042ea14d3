"""Topics as a stream, from librdkafka's mock cluster over TCP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from ackproof_spark.live import topic_source
from ackproof_spark.live.topic_source import Offset, TopicReader
from ackproof_spark.reading import kafka_source

#: Partitions of every topic of the mock, which creates topics on their first use.
PARTITIONS = 4


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    cluster = Producer({"test.mock.num.brokers": 3, "bootstrap.servers": "mock"})
    yield ",".join(str(b).split("/")[0] for b in cluster.list_topics(timeout=60).brokers.values())
    del cluster


@pytest.fixture
def topic() -> str:
    return f"orders-{uuid4().hex[:8]}"


def produce(bootstrap: str, topic: str, *values: bytes, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(30) == 0


def reader(bootstrap: str, *topics: str) -> TopicReader:
    return TopicReader({"bootstrap.servers": bootstrap}, topics)


def values(batches: Iterator[pa.RecordBatch]) -> list[bytes]:
    return [row["value"] for batch in batches for row in batch.to_pylist()]


def read(source: TopicReader, start: Offset, *, at_least: int) -> tuple[list[bytes], Offset]:
    """Read up to 100 micro-batches until there are `at_least` records."""
    received: list[bytes] = []
    for _ in range(100):
        batches, start = source.read(json.loads(json.dumps(start)))
        received += values(batches)
        if len(received) >= at_least:
            break
    return received, start


def test_records_are_read_from_the_start_and_once(bootstrap, topic):
    produce(bootstrap, topic, b"0", b"1", b"2", partition=1)
    source = reader(bootstrap, topic)
    received, offset = read(source, source.initialOffset(), at_least=3)
    assert received == [b"0", b"1", b"2"]
    assert offset[topic]["1"][0] == 3
    produce(bootstrap, topic, b"3", partition=1)
    produce(bootstrap, topic, b"4", partition=0)
    received, offset = read(source, offset, at_least=2)
    assert sorted(received) == [b"3", b"4"]
    assert {p: o[0] for p, o in offset[topic].items()} == {"0": 1, "1": 4}
    source.stop()


def test_another_reader_continues_from_an_offset(bootstrap, topic):
    produce(bootstrap, topic, b"0", b"1")
    first = reader(bootstrap, topic)
    _, offset = read(first, {}, at_least=2)
    first.stop()
    produce(bootstrap, topic, b"2")
    second = reader(bootstrap, topic)
    assert read(second, offset, at_least=1)[0] == [b"2"]
    second.stop()


def test_two_offsets_give_the_same_records_again(bootstrap, topic):
    produce(bootstrap, topic, b"0", b"1")
    source = reader(bootstrap, topic)
    _, start = read(source, {}, at_least=2)
    produce(bootstrap, topic, b"2", b"3")
    produce(bootstrap, topic, b"other", partition=2)
    received, end = read(source, start, at_least=3)
    source.stop()
    produce(bootstrap, topic, b"4")
    again = values(reader(bootstrap, topic).readBetweenOffsets(start, end))
    assert sorted(again) == sorted(received) == [b"2", b"3", b"other"]
    assert values(reader(bootstrap, topic).readBetweenOffsets({}, start)) == [b"0", b"1"]


def test_the_columns_are_those_that_parse_records_needs(bootstrap, topic):
    produce(bootstrap, topic, b"value", partition=3)
    source = reader(bootstrap, topic)
    received: list[dict] = []
    offset: Offset = {}
    while not received:
        batches, offset = source.read(offset)
        received = [row for batch in batches for row in batch.to_pylist()]
    source.stop()
    (row,) = received
    assert (row["topic"], row["partition"], row["offset"], row["value"]) == (topic, 3, 0, b"value")
    assert row["timestamp"].year >= 2026


def test_without_a_broker_there_are_no_records_and_no_error(monkeypatch):
    monkeypatch.setattr(topic_source, "_ANSWER_S", 0.2)
    source = reader("127.0.0.1:1", "orders")
    batches, offset = source.read({"orders": {"0": [7, 2]}})
    assert list(batches) == []
    assert offset == {"orders": {"0": [7, 2]}}
    source.stop()


def test_records_that_no_broker_returns_again_are_an_error(monkeypatch):
    monkeypatch.setattr(kafka_source, "_SILENCE_S", 1.0)
    source = reader("127.0.0.1:1", "orders")
    with pytest.raises(ConnectionError, match="orders-0 from offset 0"):
        list(source.readBetweenOffsets({}, {"orders": {"0": [3, 0]}}))
