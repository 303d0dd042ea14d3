"""The canary of a watch, on a mock cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError

from ackproof.clients.canary import Canary
from ackproof.errors import ClusterError
from unit.harness.clients.mock_cluster import MockCluster, mock_cluster
from waiting import until

PARTITIONS = [0, 1]


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with mock_cluster() as made:
        yield made


def canary(cluster: MockCluster, folder: Path) -> Canary:
    settings = {"bootstrap.servers": cluster.bootstrap}
    return Canary("canary", PARTITIONS, folder, settings, header="id", every_s=0.02)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in folder.iterdir() for line in file.read_text().splitlines()]


def test_its_log_names_the_records_that_it_wrote(cluster: MockCluster, tmp_path: Path) -> None:
    with canary(cluster, tmp_path) as running:
        until(lambda: len(lines(tmp_path)) >= 10)
        assert not running.trouble(60)
    logged = {(row["partition"], row["offset"]): row["id"] for row in lines(tmp_path)}
    client = {"bootstrap.servers": cluster.bootstrap, "group.id": "test"}
    consumer = Consumer({**client, "auto.offset.reset": "earliest"})
    consumer.subscribe(["canary"])
    read: dict[tuple[int, int], str] = {}

    def look() -> bool:
        for message in consumer.consume(100, 0.1):
            name = dict(message.headers())["id"].decode()
            read[message.partition(), message.offset()] = name
        return len(read) >= len(logged)

    until(look)
    consumer.close()
    assert read == logged
    names = [row["id"] for row in lines(tmp_path) if row["partition"] == 1]
    [producer] = {name.partition(":")[0] for name in names}
    assert names == [f"{producer}:{number}" for number in range(len(names))]


def test_it_does_not_start_without_the_right_to_write(cluster: MockCluster, tmp_path: Path) -> None:
    cluster.answer_produce(*[KafkaError.TOPIC_AUTHORIZATION_FAILED] * 2)
    with pytest.raises(ClusterError, match=r"cannot write to canary-[01]: .*authorization"):
        canary(cluster, tmp_path).__enter__()
    assert not lines(tmp_path)


def test_after_a_fatal_error_another_producer_goes_on(cluster: MockCluster, tmp_path: Path) -> None:
    """A fenced producer id, as brokers that lost its records answer, is fatal to librdkafka."""
    with canary(cluster, tmp_path) as running:
        cluster.answer_produce(*[KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER] * 2)
        until(lambda: len({row["id"].partition(":")[0] for row in lines(tmp_path)}) >= 2)
        assert not running.trouble(60)
    later = lines(tmp_path)[-1]["id"].partition(":")[0]
    assert f"{later}:0" in {row["id"] for row in lines(tmp_path)}


def test_silence_is_said(cluster: MockCluster, tmp_path: Path) -> None:
    with canary(cluster, tmp_path) as running:
        cluster.answer_produce(*[KafkaError.TOPIC_AUTHORIZATION_FAILED] * 1000)
        until(lambda: "authorization" in running.trouble(0.2))
        assert "got no ack of canary-" in running.trouble(0.2)
        assert not running.trouble(60)


def test_a_log_that_cannot_be_written_ends_it(cluster: MockCluster, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    with canary(cluster, folder) as running:
        running._log.close()  # as a full disk refuses a write
        until(lambda: "the canary has ended: " in running.trouble(60))
        assert "cannot be written" in running.trouble(60)
