"""One body, two arms: what consumers record is what they were given, processed and committed."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ackproof.harness import effects, recorded, streams
from ackproof.harness.clients import (
    Commit,
    ConsumerProcess,
    ConsumerSpec,
    ProducerProcess,
    ProducerSpec,
)
from ackproof.harness.ledger import stream_path
from ackproof.spark_analysis.tables import LOCATION

PARTITIONS = 4
WITHIN = 60.0
SENDS = 4_000
#: Assigned partitions, with a group's offsets: a crashed member of a group is missed only later.
ALL = list(range(PARTITIONS))
SETTINGS = {"auto.offset.reset": "earliest"}

_topics = (f"consumed-{os.getpid()}-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def mock_bootstrap() -> Iterator[str]:
    cluster = Producer({"test.mock.num.brokers": 3, "bootstrap.servers": "mock"})
    brokers = cluster.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    cluster.close()


@pytest.fixture(params=["mock", pytest.param("cluster", marks=pytest.mark.cluster)])
def bootstrap(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(
        "mock_bootstrap" if request.param == "mock" else "kafka_bootstrap"
    )


@pytest.fixture
def topic(request: pytest.FixtureRequest, bootstrap: str) -> str:
    name = next(_topics)
    if request.node.get_closest_marker("cluster"):
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(name, PARTITIONS)])[name].result(WITHIN)
    return name


class Clients:
    """The clients of one small run, and what they record."""

    def __init__(self, run_dir: Path, bootstrap: str, topic: str) -> None:
        self.run_dir = run_dir
        self.bootstrap = bootstrap
        self.topic = topic
        self.consumers: list[ConsumerProcess] = []
        self.producers: list[ProducerProcess] = []

    def producer(self, **fields: Any) -> ProducerProcess:
        number = len(self.producers)
        settings = {"acks": "all", "linger.ms": 1, **fields.pop("settings", {})}
        process = ProducerProcess(
            ProducerSpec(
                run_id="run-1",
                number=number,
                topic=self.topic,
                partitions=PARTITIONS,
                bootstrap_servers=self.bootstrap,
                progress=self.run_dir / f"producer-{number}.page",
                ledger=stream_path(self.run_dir, number),
                settings=settings,
                **{"records": SENDS} | fields,
            )
        )
        self.producers.append(process)
        process.start()
        return process

    def produce(self, **fields: Any) -> None:
        process = self.producer(**fields)
        assert process.wait(WITHIN) == 0, process.error

    def consumer(self, *, crashes: bool = False, **fields: Any) -> ConsumerProcess:
        number = len(self.consumers)
        settings = SETTINGS | fields.pop("settings", {})
        process = ConsumerProcess(
            ConsumerSpec(
                run_id="run-1",
                number=number,
                topic=self.topic,
                bootstrap_servers=self.bootstrap,
                progress=self.run_dir / f"consumer-{number}.page",
                reads=streams.stream_path(self.run_dir, "reads", f"consumer-{number}"),
                events=streams.stream_path(self.run_dir, "consumer_events", f"consumer-{number}"),
                effects=effects.path_of(self.run_dir, f"consumer-{number}"),
                ends=self.run_dir / "ends.json",
                settings=settings,
                **{"group": "billing", "crash_after": 1_000 if crashes else None} | fields,
            )
        )
        self.consumers.append(process)
        process.start()
        if crashes:
            assert process.wait(WITHIN) == -signal.SIGKILL, process.error
        return process

    def consume_up_to(self, end: int) -> None:
        """Have every consumer that runs consume each partition up to `end`, and end."""
        ends = dict.fromkeys(range(PARTITIONS), end)
        (self.run_dir / "ends.json").write_text(json.dumps(ends))
        running = [process for process in self.consumers if process.returncode is None]
        for process in running:
            process.stop()
        for process in running:
            assert process.wait(WITHIN) == 0, process.error

    def rows(self, table: str) -> list[dict[str, Any]]:
        recorded.close(self.run_dir)
        return pq.read_table(self.run_dir / LOCATION[table]).to_pylist()

    def processed(self) -> Counter[int]:
        """How often each sequence was processed."""
        return Counter(row["sequence"] for row in self.rows("effects"))


@pytest.fixture
def clients(tmp_path: Path, bootstrap: str, topic: str) -> Iterator[Clients]:
    found = Clients(tmp_path, bootstrap, topic)
    yield found
    for process in (*found.consumers, *found.producers):
        process.kill()


def test_a_consumer_records_what_it_was_given_in_order_and_processes_it_once(clients):
    clients.produce()
    clients.consumer()
    clients.consume_up_to(SENDS // PARTITIONS)
    reads = clients.rows("reads")
    assert {row["sequence"] for row in reads} == set(range(SENDS))
    for partition in range(PARTITIONS):
        offsets = [row["offset"] for row in reads if row["partition"] == partition]
        assert offsets == list(range(SENDS // PARTITIONS))
    assert [row["poll"] for row in reads] == sorted(row["poll"] for row in reads)
    assert clients.processed() == Counter(range(SENDS))
    events = [row["event"] for row in clients.rows("consumer_events")]
    assert events[0] == "started"
    assert events[-1] == "closed"
    assert {"assigned", "committed", "caught-up", "revoked"} <= set(events)


def test_assigned_partitions_are_consumed_without_a_group_to_join(clients):
    clients.produce()
    clients.consumer(partitions=[1, 2])
    clients.consume_up_to(SENDS // PARTITIONS)
    assert {row["partition"] for row in clients.rows("reads")} == {1, 2}
    assert len(clients.processed()) == SENDS // 2


def test_committed_after_processing_a_crash_repeats_and_skips_nothing(clients):
    clients.produce()
    clients.consumer(commit=Commit.AFTER, partitions=ALL, crashes=True)
    clients.consumer(commit=Commit.AFTER, partitions=ALL)
    clients.consume_up_to(SENDS // PARTITIONS)
    processed = clients.processed()
    assert set(processed) == set(range(SENDS))
    assert max(processed.values()) == 2


@pytest.mark.parametrize(
    ("commit", "settings"),
    [(Commit.BEFORE, {}), (Commit.AUTO, {"auto.commit.interval.ms": 200})],
)
def test_committed_before_processing_a_crash_skips_and_repeats_nothing(clients, commit, settings):
    clients.produce()
    clients.consumer(commit=commit, settings=settings, partitions=ALL, crashes=True)
    clients.consumer(commit=commit, settings=settings, partitions=ALL)
    clients.consume_up_to(SENDS // PARTITIONS)
    processed = clients.processed()
    skipped = set(range(SENDS)) - set(processed)
    assert 0 < len(skipped) <= 250
    assert set(processed.values()) == {1}
    assert skipped <= {row["sequence"] for row in clients.rows("reads")}
