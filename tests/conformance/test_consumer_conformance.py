"""Consumers record what they read, processed and committed: on the mock and on real brokers."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ackproof.clients import forwarding
from ackproof.clients.process import ConsumerProcess, ProducerProcess
from ackproof.clients.shared_page import State
from ackproof.clients.specs import TransactionSpec
from ackproof.cluster.admin import Admin
from ackproof.containers.kafka_tools import TOOLS
from ackproof.ledger import conversion
from ackproof.scenario.types import Commit
from ackproof_spark.tables import LOCATION
from conformance.arms import (
    LATER_JAVA,
    LATER_REAL,
    MOCK,
    OTHER,
    PARTITIONS,
    REAL,
    WITHIN,
)
from support.client_specs import consumer_spec, producer_spec
from waiting import until

SENDS = 4_000
#: Partitions are assigned: a group notices the crash of a member only after the session timeout.
ALL = list(range(PARTITIONS))
SETTINGS = {"auto.offset.reset": "earliest"}
IDEMPOTENT = {"settings": {"enable.idempotence": True}}


#: Another test covers this on a real cluster.
only_mock = pytest.mark.parametrize("arm", [MOCK], indirect=True)


class Clients:
    """The clients of a small run, and what they record."""

    def __init__(
        self, run_dir: Path, bootstrap: str, topic: str, java: str | None, librdkafka: str | None
    ) -> None:
        self.common: dict[str, Any] = {
            "topic": topic,
            "bootstrap_servers": bootstrap,
            "java": java,
            "librdkafka": librdkafka,
        }
        self.run_dir = run_dir
        self.bootstrap = bootstrap
        self.topic = topic
        self.consumers: list[ConsumerProcess] = []
        self.producers: list[ProducerProcess] = []

    def producer(self, **fields: Any) -> ProducerProcess:
        number = len(self.producers)
        settings = {"acks": "all", "linger.ms": 1, **fields.pop("settings", {})}
        process = ProducerProcess(
            producer_spec(
                self.run_dir,
                number,
                **self.common,
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
            consumer_spec(
                self.run_dir,
                number,
                **self.common,
                settings=settings,
                crash_after=1_000 if crashes else None,
                **fields,
            )
        )
        self.consumers.append(process)
        process.start()
        if crashes:
            assert process.wait(WITHIN) == -signal.SIGKILL, process.error
        return process

    def take_forwarded(self, topics: dict[str, int]) -> None:
        """Store the records forwarded to these topics as effects."""
        settings = {"bootstrap.servers": self.bootstrap}
        partitions = [(name, n) for name, count in topics.items() for n in range(count)]
        forwarding.take(
            self.run_dir,
            run_id="run-1",
            source=self.topic,
            groups={"billing": list(topics)},
            ends=Admin(self.bootstrap).write_end_markers(partitions),
            settings=settings,
        )

    def consume_up_to(self, end: int) -> None:
        """Let every running consumer consume each partition up to `end`, then end."""
        ends = dict.fromkeys(range(PARTITIONS), end)
        (self.run_dir / "ends.json").write_text(json.dumps(ends))
        running = [process for process in self.consumers if process.returncode is None]
        for process in running:
            process.stop()
        for process in running:
            assert process.wait(WITHIN) == 0, process.error

    def rows(self, table: str) -> list[dict[str, Any]]:
        conversion.close(self.run_dir)
        return pq.read_table(self.run_dir / LOCATION[table]).to_pylist()

    def processed(self) -> Counter[int]:
        """How often each sequence was processed."""
        return Counter(row["sequence"] for row in self.rows("effects"))


@pytest.fixture
def into(
    request: pytest.FixtureRequest, bootstrap: str, topic: str
) -> Callable[..., dict[str, int]]:
    """Create topics of this test; return them with their partitions."""

    def make(*topics: str) -> dict[str, int]:
        names = [f"{topic}-{one}" for one in topics]
        if request.node.get_closest_marker("cluster"):
            admin = AdminClient({"bootstrap.servers": bootstrap})
            made = admin.create_topics([NewTopic(name, PARTITIONS) for name in names])
            for name in names:
                made[name].result(WITHIN)
        return dict.fromkeys(names, PARTITIONS)

    return make


@pytest.fixture
def clients(
    tmp_path: Path, bootstrap: str, topic: str, java: str | None, librdkafka: str | None
) -> Iterator[Clients]:
    found = Clients(tmp_path, bootstrap, topic, java, librdkafka)
    yield found
    for consumer in found.consumers:
        consumer.kill()
    for producer in found.producers:
        producer.kill()


def test_a_consumer_records_reads_in_order_and_processes_each_record_once(clients):
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


@pytest.mark.parametrize("arm", [MOCK, LATER_REAL, LATER_JAVA, OTHER], indirect=True)
def test_assigned_partitions_are_consumed_without_a_group_membership(clients):
    clients.produce()
    clients.consumer(partitions=[1, 2])
    clients.consume_up_to(SENDS // PARTITIONS)
    assert {row["partition"] for row in clients.rows("reads")} == {1, 2}
    assert len(clients.processed()) == SENDS // 2


@pytest.mark.parametrize("arm", [MOCK, LATER_REAL, LATER_JAVA, OTHER], indirect=True)
def test_a_consumer_that_begins_at_the_latest_offset_ends_without_a_record(clients):
    """No record shows its position; it asks its client."""
    clients.produce()
    clients.consumer(settings={"auto.offset.reset": "latest"})
    clients.consume_up_to(SENDS // PARTITIONS)
    assert clients.rows("reads") == []
    caught_up = [row for row in clients.rows("consumer_events") if row["event"] == "caught-up"]
    assert {row["offset"] for row in caught_up} == {SENDS // PARTITIONS}


@pytest.mark.parametrize("arm", [MOCK, LATER_REAL, LATER_JAVA, OTHER], indirect=True)
def test_with_commits_after_processing_a_crash_reprocesses_and_skips_nothing(clients):
    clients.produce()
    clients.consumer(commit=Commit.AFTER, partitions=ALL, crashes=True)
    clients.consumer(commit=Commit.AFTER, partitions=ALL)
    clients.consume_up_to(SENDS // PARTITIONS)
    processed = clients.processed()
    assert set(processed) == set(range(SENDS))
    assert max(processed.values()) == 2


@only_mock
@pytest.mark.parametrize(
    "commit", [Commit.TRANSACTION, pytest.param(Commit.AFTER, marks=pytest.mark.slow)]
)
def test_forwarded_records_are_the_processed_records(clients, into, commit):
    topics = into("invoices", "audit")
    clients.produce()
    clients.consumer(into=topics, commit=commit, transactional_id=clients.topic, partitions=ALL)
    clients.consume_up_to(SENDS // PARTITIONS)
    clients.take_forwarded(topics)
    assert clients.processed() == Counter(range(SENDS))


@pytest.mark.parametrize("arm", [REAL, LATER_JAVA, OTHER], indirect=True)
@pytest.mark.parametrize(
    "commit", [Commit.TRANSACTION, pytest.param(Commit.AFTER, marks=pytest.mark.slow)]
)
def test_records_are_forwarded_exactly_once_only_with_offsets_in_the_transaction(
    clients, into, commit
):
    topics = into("invoices", "audit")
    pipeline = {"into": topics, "commit": commit, "transactional_id": clients.topic}
    clients.produce()
    clients.consumer(**pipeline, partitions=ALL, crashes=True)
    clients.consumer(**pipeline, partitions=ALL)
    clients.consume_up_to(SENDS // PARTITIONS)
    clients.take_forwarded(topics)
    processed = clients.processed()
    assert set(processed) == set(range(SENDS))
    assert max(processed.values()) == (1 if commit is Commit.TRANSACTION else 2)


@pytest.mark.parametrize("arm", [LATER_REAL, LATER_JAVA, OTHER], indirect=True)
def test_a_replaced_pipeline_is_fenced_and_forwards_nothing(clients, into):
    topics = into("invoices")
    pipeline = {"into": topics, "commit": Commit.TRANSACTION, "transactional_id": clients.topic}
    zombie = clients.consumer(**pipeline, partitions=ALL)
    until(lambda: zombie.state is State.CONSUMING)
    clients.consumer(**pipeline, partitions=ALL)
    until(lambda: clients.consumers[1].state is State.CONSUMING)
    clients.produce()
    until(lambda: zombie.returncode is not None)
    assert "fenced" in zombie.error.lower()
    clients.consume_up_to(SENDS // PARTITIONS)
    clients.take_forwarded(topics)
    assert clients.processed() == Counter(range(SENDS))


@pytest.mark.parametrize(
    ("arm", "commit"),
    [
        pytest.param("cluster", Commit.BEFORE, marks=pytest.mark.cluster),
        pytest.param("cluster", Commit.AUTO, marks=[pytest.mark.cluster, pytest.mark.slow]),
        pytest.param("java", Commit.BEFORE, marks=[pytest.mark.cluster, pytest.mark.slow]),
    ],
    indirect=["arm"],
)
def test_with_commits_before_processing_a_crash_skips_and_reprocesses_nothing(clients, commit):
    settings = {"auto.commit.interval.ms": 1000} if commit is Commit.AUTO else {}
    clients.produce()
    clients.consumer(commit=commit, settings=settings, partitions=ALL, crashes=True)
    clients.consumer(commit=commit, settings=settings, partitions=ALL)
    clients.consume_up_to(SENDS // PARTITIONS)
    failed = [e["error"] for e in clients.rows("consumer_events") if e["event"] == "commit-failed"]
    assert failed == []
    processed = clients.processed()
    skipped = set(range(SENDS)) - set(processed)
    assert 0 < len(skipped) <= 250
    assert set(processed.values()) == {1}
    assert skipped <= {row["sequence"] for row in clients.rows("reads")}


@pytest.mark.parametrize("arm", [LATER_JAVA], indirect=True)
def test_the_java_client_commits_automatically_only_what_is_processed(clients):
    settings = {"auto.commit.interval.ms": 10}
    clients.produce()
    clients.consumer(commit=Commit.AUTO, settings=settings, partitions=ALL, crashes=True)
    clients.consumer(commit=Commit.AUTO, settings=settings, partitions=ALL)
    clients.consume_up_to(SENDS // PARTITIONS)
    processed = clients.processed()
    assert set(processed) == set(range(SENDS))
    assert max(processed.values()) == 2
    assert "committed" in {row["event"] for row in clients.rows("consumer_events")}


class TestTransactions:
    def spec(self, **fields: Any) -> TransactionSpec:
        return TransactionSpec(transactional_id=f"id-{os.getpid()}", size=100, **fields)

    def outcomes(self, clients: Clients) -> dict[tuple[int, int], str]:
        return {
            (row["producer"], row["transaction"]): row["outcome"]
            for row in clients.rows("transactions")
        }

    def sends(self, clients: Clients, outcome: str) -> set[tuple[int, int]]:
        return {
            (row["producer"], row["sequence"])
            for row in clients.rows("ledger")
            if row["outcome"] == outcome
        }

    def test_sends_get_the_outcome_of_their_transaction(self, clients):
        clients.produce(records=2_000, transactions=self.spec(abort=0.3, seed=1), **IDEMPOTENT)
        outcomes = self.outcomes(clients)
        assert set(outcomes) == {(0, number) for number in range(20)}
        assert set(outcomes.values()) == {"committed", "aborted"}
        for outcome, of_sends in (("committed", "acked"), ("aborted", "aborted")):
            expected = {
                (0, sequence)
                for (_, number), found in outcomes.items()
                if found == outcome
                for sequence in range(100 * number, 100 * (number + 1))
            }
            assert self.sends(clients, of_sends) == expected
        offsets = {row["outcome"]: row["offset"] is None for row in clients.rows("ledger")}
        assert offsets == {"acked": False, "aborted": True}

    @pytest.mark.parametrize("arm", [MOCK, LATER_REAL, LATER_JAVA, OTHER], indirect=True)
    def test_a_crash_before_the_commit_request_aborts_the_transaction(self, clients):
        producer = clients.producer(transactions=self.spec(crash_in=3), **IDEMPOTENT)
        assert producer.wait(WITHIN) == -signal.SIGKILL
        assert self.outcomes(clients) == {(0, number): "committed" for number in range(3)}
        assert self.sends(clients, "acked") == {(0, number) for number in range(300)}
        assert self.sends(clients, "aborted") >= {(0, number) for number in range(300, 400)}
        assert self.sends(clients, "unknown") == set()

    @pytest.mark.parametrize("arm", [REAL, LATER_JAVA, OTHER], indirect=True)
    def test_a_zombie_is_fenced_and_ends_without_an_error(self, clients):
        zombie = clients.producer(transactions=self.spec(zombie_in=2), **IDEMPOTENT)
        until(lambda: zombie.state is State.PAUSED)
        successor = clients.producer(
            records=500, transactions=self.spec(predecessor=0), **IDEMPOTENT
        )
        until(lambda: successor.state not in (State.LOADING, State.STARTING))
        zombie.resume()
        assert zombie.wait(WITHIN) == 0, zombie.error
        assert successor.wait(WITHIN) == 0, successor.error
        outcomes = self.outcomes(clients)
        assert outcomes.pop((0, 2)) in ("aborted", "unknown")
        assert set(outcomes.values()) == {"committed"}
        assert self.sends(clients, "acked") == {(0, n) for n in range(200)} | {
            (1, n) for n in range(500)
        }

    @pytest.mark.parametrize("arm", [REAL, LATER_JAVA, OTHER], indirect=True)
    def test_aborted_records_are_read_with_read_uncommitted_only(self, clients):
        clients.produce(records=2_000, transactions=self.spec(abort=0.3, seed=1), **IDEMPOTENT)
        clients.produce(records=PARTITIONS)  # without a transaction, at the end of the log
        ends = 2_000 // PARTITIONS + 20
        for group in ("read_committed", "read_uncommitted"):
            clients.consumer(group=group, partitions=ALL, settings={"isolation.level": group})
        clients.consume_up_to(ends)
        seen = {
            group: {
                (r["producer"], r["sequence"]) for r in clients.rows("reads") if r["group"] == group
            }
            for group in ("read_committed", "read_uncommitted")
        }
        aborted = self.sends(clients, "aborted")
        assert aborted
        assert not seen["read_committed"] & aborted
        assert seen["read_committed"] == self.sends(clients, "acked")
        assert seen["read_uncommitted"] == self.sends(clients, "acked") | aborted

    @pytest.mark.parametrize(
        ("arm", "bumps"),
        [
            pytest.param("cluster", False, marks=pytest.mark.cluster),
            pytest.param("java", True, marks=[pytest.mark.cluster, pytest.mark.slow]),
        ],
        indirect=["arm"],
    )
    def test_each_transaction_of_protocol_2_has_an_epoch_of_its_own(
        self, clients, cluster, java, bumps
    ):
        transactions = TransactionSpec(transactional_id=clients.topic, size=100)
        clients.produce(records=500, transactions=transactions, **IDEMPOTENT)
        described = cluster.run_kafka_tool(
            TOOLS["kafka-transactions"], "describe", "--transactional-id", clients.topic
        )
        names, values = (line.split() for line in described.strip().splitlines()[-2:])
        of = dict(zip(names, values, strict=False))  # the last columns are empty
        assert cluster.interfaces.operations.feature_level("transaction.version") == "2"
        assert of["TransactionState"] == "CompleteCommit"
        assert int(of["ProducerEpoch"]) == (5 if bumps else 0)
        if java:
            found = json.loads(clients.producers[0].spec.in_force.read_text())
            assert found["transaction.protocol"] == 2
