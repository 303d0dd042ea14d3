"""Client faults on a real broker, observed by the broker or another client, and healed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message
from docker import DockerClient

from ackproof.clients.fault_target import RunClients
from ackproof.clients.process import ProducerProcess
from ackproof.clients.supervisor import ClientSupervisor
from ackproof.cluster.booted import KafkaCluster
from ackproof.ledger.producer_ledger import recover as recovered
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.model import Scenario
from ackproof.scenario.topics import TopicSpec
from ackproof_faults import Fault, Guard
from ackproof_faults.clients import (
    CrashClient,
    FillBuffer,
    PauseClient,
    PurgeClient,
    RebalanceStorm,
    SkewTimestamps,
    SlowClient,
)
from ackproof_spark.record import decode
from integration.faulting import in_force, recover
from integration.reading import records
from integration.sending import log_end
from kafka_clusters import boot, shared_or
from waiting import until

pytestmark = pytest.mark.cluster

Employ = Callable[..., ClientSupervisor]


@pytest.fixture(scope="module")
def one_broker(engine: DockerClient) -> Iterator[KafkaCluster]:
    with boot(engine, ClusterSpec(brokers=1, heap="128m")) as cluster:
        yield cluster


@pytest.fixture
def brokers(request: pytest.FixtureRequest) -> KafkaCluster:
    return shared_or("one_broker", request)


@pytest.fixture(params=["librdkafka", pytest.param("java", marks=pytest.mark.slow)])
def client(request: pytest.FixtureRequest) -> str:
    """The client library of producers and consumers."""
    return str(request.param)


@pytest.fixture
def employ(brokers: KafkaCluster, tmp_path: Path, client: str) -> Iterator[Employ]:
    """Start the clients of a workload on a new topic and wait for the first acks."""
    with ExitStack() as stack:

        def start(**workload: object) -> ClientSupervisor:
            topic = f"t-{uuid4().hex[:8]}"
            brokers.create_topics({topic: TopicSpec(replication_factor=1)})
            scenario = Scenario.model_validate(
                {
                    "version": 1,
                    "name": "clients",
                    "cluster": {"brokers": 1},
                    "topics": {topic: {"replication_factor": 1}},
                    "workload": {
                        "topic": topic,
                        "client": client,
                        "rate": 1000,
                        "records": 1_000_000,
                        "seconds": "120s",
                        "settings": {"acks": "all", "enable.idempotence": True},
                        **workload,
                    },
                }
            )
            for folder in ("ledger", "transactions"):
                (tmp_path / folder).mkdir()
            supervisor = ClientSupervisor(
                scenario, tmp_path, bootstrap_servers=brokers.bootstrap_servers, secrets={}
            )
            stack.enter_context(supervisor)
            brokers.interfaces.offer("clients", RunClients(supervisor))
            until(lambda: supervisor.progress().acked > 0)
            return supervisor

        yield start


def acks_go_on(producer: ProducerProcess) -> None:
    before = producer.progress().acked
    until(lambda: producer.progress().acked > before)


def end(cluster: KafkaCluster, supervisor: ClientSupervisor) -> int:
    """Return the partition's high watermark, as the broker tells it."""
    return log_end(cluster, supervisor.producers[0].spec.topic)[0]


def settled(supervisor: ClientSupervisor) -> list[str]:
    supervisor.stop_producers()
    return supervisor.await_producers()


def ledger_after(cluster: KafkaCluster, guard: Guard, supervisor: ClientSupervisor) -> pa.Table:
    """Heal the fault, await further acks and the end; return the first producer's ledger."""
    recover(cluster, guard)
    acks_go_on(supervisor.producers[0])
    assert settled(supervisor) == []
    return ledger_of(supervisor.producers[0])


def test_a_paused_producer_is_fenced_by_a_new_one_with_its_transactional_id(
    brokers: KafkaCluster, employ: Employ
) -> None:
    supervisor = employ(transactions={"size": 50})
    guard = in_force(brokers, PauseClient(client="producer 0", successor=True, within="60s"))
    zombie, successor = supervisor.producers
    acks_go_on(successor)
    recover(brokers, guard)
    until(lambda: zombie.returncode is not None)
    # So the broker has told it, in the words of one client or the other.
    assert any(word in zombie.error for word in ("FENCED", "INVALID_PRODUCER_EPOCH"))
    acks_go_on(successor)
    assert settled(supervisor) == []


@pytest.mark.slow
def test_a_crashed_producer_writes_nothing_until_its_successor_starts(
    brokers: KafkaCluster, employ: Employ
) -> None:
    supervisor = employ()
    guard = in_force(brokers, CrashClient(client="producers"))
    before = end(brokers, supervisor)
    recover(brokers, guard)
    until(lambda: end(brokers, supervisor) > before)
    assert settled(supervisor) == []
    first, successor = supervisor.producers
    # The page of a killed producer may be some sends behind; its ledger, below, is not.
    assert first.progress().acked + successor.progress().acked <= end(brokers, supervisor)
    written = {
        (message.offset(), *identity[1:])
        for message in records(brokers, first.spec.topic)
        if (identity := decode(message.value()))
    }
    for producer in (first, successor):
        ledger = ledger_of(producer)
        acked_at = {
            (offset, producer.spec.number, sequence)
            for offset, sequence, outcome in zip(
                *(ledger[name].to_pylist() for name in ("offset", "sequence", "outcome")),
                strict=True,
            )
            if outcome == "acked"
        }
        assert acked_at
        assert acked_at <= written
        sent = set(ledger["sequence"].to_pylist())
        assert {
            sequence for _, number, sequence in written if number == producer.spec.number
        } <= sent


@pytest.mark.slow
def test_an_open_transaction_is_aborted_by_the_next_producer_with_its_id(
    brokers: KafkaCluster, employ: Employ
) -> None:
    supervisor = employ(transactions={"size": 20})
    guard = in_force(brokers, CrashClient(client="producer 0", how="exit"))
    recover(brokers, guard)
    first, successor = supervisor.producers
    assert first.spec.transactions is not None
    assert successor.spec.transactions is not None
    assert first.spec.transactions.transactional_id == successor.spec.transactions.transactional_id
    acks_go_on(successor)
    assert settled(supervisor) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "fault"),
    [
        (
            {"settings": {"max.poll.interval.ms": 6000, "session.timeout.ms": 6000}},
            SlowClient(client="consumer 0", delay="9s", within="80s"),
        ),
        ({"members": 2}, RebalanceStorm(client="consumer 0", every="500ms")),
    ],
    ids=["a slow consumer leaves its group", "a storm"],
)
def test_the_coordinator_rebalances(
    brokers: KafkaCluster, employ: Employ, group: dict[str, Any], fault: Fault
) -> None:
    supervisor = employ(consumers={"billing": group})
    until(lambda: any(one.progress().acked > 0 for one in supervisor.consumers))
    began = datetime.now(UTC)
    guard = in_force(brokers, fault)
    rebalances = "to rebalance group billing"
    assert brokers.interfaces.logs.await_line(1, rebalances, since=began, within_s=60)
    recover(brokers, guard)
    assert settled(supervisor) == []


@pytest.mark.slow
@pytest.mark.parametrize("client", ["librdkafka"], indirect=True)  # Java's reports hold its network
def test_a_full_buffer_delays_delivery_reports_and_loses_nothing(
    brokers: KafkaCluster, employ: Employ
) -> None:
    supervisor = employ(rate=2000)
    (producer,) = supervisor.producers
    with in_force(brokers, FillBuffer()) as guard:
        acked = producer.progress().acked
        until(lambda: end(brokers, supervisor) > acked + 1000)  # written; no report is served
        assert producer.progress().acked == acked
    ledger = ledger_after(brokers, guard, supervisor)
    assert set(ledger["outcome"].to_pylist()) == {"acked"}
    assert end(brokers, supervisor) == ledger.num_rows


@pytest.mark.parametrize("client", ["librdkafka"], indirect=True)
@pytest.mark.parametrize("what", ["queue", pytest.param("all", marks=pytest.mark.slow)])
def test_purged_records_are_neither_acked_nor_in_the_topic(
    brokers: KafkaCluster, employ: Employ, what: Literal["queue", "all"]
) -> None:
    supervisor = employ(rate=2000)
    (producer,) = supervisor.producers
    guard = in_force(brokers, PurgeClient(what=what))
    before = producer.progress().failed
    until(lambda: producer.progress().failed > before)  # each time round, not once
    ledger = ledger_after(brokers, guard, supervisor)
    written = sequences(records(brokers, producer.spec.topic))
    assert len(written) == len(set(written))
    for outcome in ("acked", "failed"):
        told = of_outcome(ledger, outcome)
        assert told
        assert told & set(written) == (told if outcome == "acked" else set())
    codes = set(ledger["error"].drop_null().to_pylist())
    assert "_PURGE_QUEUE" in codes
    assert codes <= {"_PURGE_QUEUE", "_PURGE_INFLIGHT"}
    if what == "queue":
        assert "_PURGE_INFLIGHT" not in codes
    # Records that were produced after the producer resumed were never purged.
    later = ledger.filter(pc.greater(ledger["sent_at"], pa.scalar(guard.window.healed_at)))
    assert set(later["outcome"].to_pylist()) == {"acked"}


@pytest.mark.slow
def test_skewed_timestamps_are_in_the_log_from_inject_to_heal(
    brokers: KafkaCluster, employ: Employ
) -> None:
    supervisor = employ(rate=200)
    (producer,) = supervisor.producers

    def newest() -> int:
        """Return by how many minutes the newest record's timestamp is off."""
        *_, last = records(brokers, producer.spec.topic, first=end(brokers, supervisor) - 1)
        return minutes_off(last)

    until(lambda: newest() == 0)
    guard = in_force(brokers, SkewTimestamps(by="90m"))
    until(lambda: newest() == -90)
    recover(brokers, guard)
    until(lambda: newest() == 0)
    assert settled(supervisor) == []
    offs = [minutes_off(one) for one in records(brokers, producer.spec.topic)]
    assert [off for off, _ in itertools.groupby(offs)] == [0, -90, 0]
    assert set(ledger_of(producer)["outcome"].to_pylist()) == {"acked"}


@pytest.mark.slow
def test_timestamps_too_far_in_the_future_are_refused_until_heal(
    brokers: KafkaCluster, employ: Employ, client: str
) -> None:
    supervisor = employ(rate=200)
    (producer,) = supervisor.producers
    # Beyond message.timestamp.after.max.ms, an hour since 4.0 (KIP-1030).
    guard = in_force(brokers, SkewTimestamps(by="90m", direction="future"))
    until(lambda: producer.progress().failed + producer.progress().unknown > 0)
    ledger = ledger_after(brokers, guard, supervisor)
    written = records(brokers, producer.spec.topic)
    assert {minutes_off(one) for one in written} == {0}
    assert of_outcome(ledger, "acked") == set(sequences(written))
    # INVALID_RECORD: the broker listed the records of a batch (KIP-467).
    assert {"INVALID_TIMESTAMP", "INVALID_RECORD"} & set(ledger["error"].to_pylist())
    if client == "java":  # no retry is counted; librdkafka's attempts are told apart by time
        assert of_outcome(ledger, "failed")
    # The first records after heal may share a batch with the last skewed ones.
    later = ledger.filter(pc.greater(ledger["sent_at"], pa.scalar(guard.window.healed_at)))
    right = [one == "acked" for one in later.sort_by("sequence")["outcome"].to_pylist()]
    assert right == sorted(right)
    assert right[-1]


def ledger_of(producer: ProducerProcess) -> pa.Table:
    """Return what a producer says became of its sends."""
    assert producer.spec.ledger is not None
    return recovered(producer.spec.ledger)


def of_outcome(ledger: pa.Table, outcome: str) -> set[int]:
    """Return the sequences of the sends with this outcome."""
    return set(ledger.filter(pc.equal(ledger["outcome"], outcome))["sequence"].to_pylist())


def sequences(found: Sequence[Message]) -> list[int]:
    """Return the sequences of the records of the first producer."""
    decoded = [decode(one.value() or b"") for one in found]
    assert all(one is not None and one[1] == 0 for one in decoded)
    return [one[2] for one in decoded if one is not None]


def minutes_off(record: Message) -> int:
    """Return the deviation of a record's timestamp from now, rounded to half hours."""
    kind, stamp = record.timestamp()
    assert kind == TIMESTAMP_CREATE_TIME
    return round((stamp / 1000 - datetime.now(UTC).timestamp()) / 1800) * 30
