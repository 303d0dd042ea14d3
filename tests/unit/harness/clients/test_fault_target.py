"""Faults of client processes, against librdkafka's mock cluster."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from ackproof.clients.fault_target import RunClients
from ackproof.clients.process import ProducerProcess
from ackproof.clients.shared_page import Order, State
from ackproof.clients.supervisor import ClientSupervisor
from ackproof.ledger import transaction_log
from ackproof.ledger.producer_ledger import recover
from ackproof.scenario.model import Scenario
from ackproof_faults import Fault, FaultError, Guard, inject
from ackproof_faults.clients import (
    CrashClient,
    FillBuffer,
    PauseClient,
    PurgeClient,
    SkewTimestamps,
    SlowClient,
)
from ackproof_faults.interfaces.clients import Order as Told
from integration.command import clock
from support.fake_cluster import FakeCluster
from support.run_directories import small
from unit.harness.clients.mock_cluster import mock_cluster
from waiting import until

WITHIN = 120.0


def scenario(**workload: object) -> Scenario:
    settings = {"acks": "all", "enable.idempotence": False, "linger.ms": 20}
    sends = {"records": 1_000_000, "seconds": "60s", "rate": 2000, "settings": settings}
    topics = {"orders": {"partitions": 4}}
    return Scenario.model_validate(small(topics=topics, workload={**sends, **workload}))


def cluster_of(supervisor: ClientSupervisor) -> FakeCluster:
    return FakeCluster(clients=RunClients(supervisor))


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Callable[..., ClientSupervisor]]:
    supervisors: list[ClientSupervisor] = []
    (tmp_path / "ledger").mkdir()
    with mock_cluster() as cluster:

        def make(**workload: object) -> ClientSupervisor:
            supervisor = ClientSupervisor(
                scenario(**workload), tmp_path, bootstrap_servers=cluster.bootstrap, secrets={}
            )
            supervisors.append(supervisor)
            supervisor.__enter__()
            until(lambda: all(one.progress().acked > 0 for one in supervisor.producers))
            return supervisor

        yield make
        for supervisor in supervisors:
            supervisor.__exit__(None, None, None)


def inject_fault(supervisor: ClientSupervisor, fault: Fault) -> Guard:
    return inject(fault, cluster_of(supervisor), clock=clock)


def in_force(supervisor: ClientSupervisor, fault: Fault) -> Guard:
    """Inject a fault that cannot be verified before; return it in force."""
    with pytest.raises(FaultError):
        fault.verify(cluster_of(supervisor), [1], ())
    guard = inject_fault(supervisor, fault)
    assert guard.window.verified, guard.window.evidence
    return guard


def recover_from(guard: Guard) -> None:
    guard.heal()
    until(guard.recovered)


def await_acks(supervisor: ClientSupervisor, producer: ProducerProcess) -> None:
    before = producer.progress().acked
    until(lambda: producer.progress().acked > before)


def outcomes(process: ProducerProcess) -> dict[str, int]:
    assert process.spec.ledger is not None
    counts = pc.value_counts(recover(process.spec.ledger)["outcome"]).to_pylist()
    return {row["values"]: row["counts"] for row in counts}


def timestamps(supervisor: ClientSupervisor) -> list[int]:
    """Return those of all records, as a consumer reads them; milliseconds."""
    spec = supervisor.producers[0].spec
    consumer = Consumer({"bootstrap.servers": spec.bootstrap_servers, "group.id": "t"})
    consumer.assign([TopicPartition("orders", n, OFFSET_BEGINNING) for n in range(4)])
    timestamps: list[int] = []

    def read_all() -> bool:
        found = consumer.consume(1000, timeout=0.1)
        timestamps.extend(message.timestamp()[1] for message in found)
        return len(timestamps) >= supervisor.progress().acked

    until(read_all)
    consumer.close()
    return timestamps


def settled(supervisor: ClientSupervisor) -> list[str]:
    supervisor.stop_producers()
    return supervisor.await_producers()


def test_a_loading_client_is_not_suspended_before_its_orphan_guard_is_active(supervise):
    supervisor = supervise()
    clients = RunClients(supervisor)
    clients.end("producer 0", "kill")
    successor = clients.succeed("producer 0")
    assert supervisor.producers[1].state is State.LOADING
    clients.stop(successor)
    assert supervisor.producers[1].state is not State.LOADING
    clients.resume(successor)
    assert settled(supervisor) == []


def test_a_paused_producer_is_suspended_until_healed(supervise) -> None:
    supervisor = supervise(producers=2)
    still, other = supervisor.producers
    guard = in_force(supervisor, PauseClient(client="producer 0"))
    before = still.progress()
    await_acks(supervisor, other)
    assert still.progress() == before
    assert not guard.recovered()
    assert (
        "is already stopped"
        in inject_fault(supervisor, PauseClient(client="producer 0")).window.evidence
    )
    recover_from(guard)
    await_acks(supervisor, still)
    assert settled(supervisor) == []


@pytest.mark.parametrize(
    ("how", "code"),
    [("kill", -signal.SIGKILL), pytest.param("exit", 70, marks=pytest.mark.slow)],
)
def test_a_crashed_producer_gets_a_successor_and_is_no_trouble(supervise, how, code) -> None:
    supervisor = supervise(settings={"acks": "all", "enable.idempotence": False, "linger.ms": 1000})
    guard = in_force(supervisor, CrashClient(client="producers", how=how))
    first = supervisor.producers[0]
    assert first.returncode == code
    assert supervisor.restart_crashed(), "the workload waits for the successor"
    recover_from(guard)
    guard.fault.heal(cluster_of(supervisor), [1], ("producer 0",))  # twice is a no-op
    first, successor = supervisor.producers
    assert first.spec.records - successor.spec.records == first.progress().sent
    assert outcomes(first)["unknown"] > 0, "what lingered was not waited for"
    assert RunClients(supervisor).running("producer 0") == ["producer 1"]
    assert RunClients(supervisor).running("producers") == ["producer 1"]
    assert settled(supervisor) == []


def test_a_successor_started_after_the_stop_ends_at_once(supervise) -> None:
    supervisor = supervise()
    guard = in_force(supervisor, CrashClient(client="producer 0"))
    supervisor.stop_producers()
    guard.heal()
    assert supervisor.await_producers() == []
    successor = supervisor.producers[1]
    assert successor.returncode == 0
    assert successor.progress().sent == 0


def test_an_unexpected_end_is_a_trouble(supervise) -> None:
    supervisor = supervise()
    os.kill(supervisor.producers[0].pid, signal.SIGKILL)
    until(lambda: not supervisor.restart_crashed())
    assert not supervisor.has_sent_all
    (trouble,) = settled(supervisor)
    assert "producer 0 ended with -9" in trouble


@pytest.mark.parametrize("records", [40, 1_000_000])
def test_producers_have_sent_all_if_they_end_with_their_last_record(supervise, records) -> None:
    supervisor = supervise(records=records, producers=2)
    if records > 40:
        supervisor.stop_producers()
    until(lambda: not supervisor.restart_crashed())
    assert supervisor.has_sent_all is (records == 40)
    assert settled(supervisor) == []


def test_the_last_transaction_is_open_until_the_producer_is_stopped(supervise, tmp_path) -> None:
    settings = {"acks": "all", "enable.idempotence": True, "linger.ms": 0}
    transactions = {"size": 10, "timeout": "300s"}
    supervisor = supervise(records=20, settings=settings, transactions=transactions)
    until(lambda: supervisor.has_sent_all)
    (producer,) = supervisor.producers
    before = producer.page.busy
    until(lambda: producer.page.busy > before + 5000)  # it goes on serving
    assert producer.state is State.PRODUCING
    supervisor.stop_producers()
    assert settled(supervisor) == []
    assert producer.progress().acked == 20
    transaction_log.close(tmp_path)
    ended = pq.read_table(tmp_path / "transactions").to_pylist()
    assert [(one["end_sequence"], one["outcome"]) for one in ended] == [
        (10, "committed"),
        (20, "committed"),
    ]


def test_a_full_buffer_loses_nothing(supervise) -> None:
    supervisor = supervise()
    (producer,) = supervisor.producers
    guard = in_force(supervisor, FillBuffer())
    assert "refused for a full queue" in guard.window.evidence
    assert producer.progress().sent - producer.progress().acked > 50_000
    recover_from(guard)
    assert producer.page.order is Order.NOTHING
    assert settled(supervisor) == []
    assert set(outcomes(producer)) == {"acked"}
    assert producer.progress().in_flight == 0


@pytest.mark.parametrize(
    ("what", "codes"),
    [
        ("queue", {"_PURGE_QUEUE"}),
        pytest.param("all", {"_PURGE_QUEUE", "_PURGE_INFLIGHT"}, marks=pytest.mark.slow),
    ],
)
def test_purged_sends_are_failed_or_unknown(supervise, what, codes) -> None:
    supervisor = supervise()
    (producer,) = supervisor.producers
    guard = in_force(supervisor, PurgeClient(what=what))
    recover_from(guard)
    await_acks(supervisor, producer)
    assert settled(supervisor) == []
    table = recover(producer.spec.ledger)
    assert {"_PURGE_QUEUE"} <= set(table["error"].drop_null().to_pylist()) <= codes
    assert outcomes(producer)["failed"] > 0, "not sent yet, and the sole attempt"
    assert producer.progress().in_flight == 0


def test_a_slow_callback_delays_outcomes(supervise) -> None:
    supervisor = supervise()
    (producer,) = supervisor.producers
    guard = in_force(supervisor, SlowClient(client="producers", delay="300ms"))
    second = inject_fault(supervisor, PurgeClient())
    assert "already misbehaves by another fault: slow" in second.window.evidence
    recover_from(guard)
    assert settled(supervisor) == []
    table = recover(producer.spec.ledger)
    waited = pc.subtract(table["resolved_at"], table["sent_at"]).cast("int64")
    assert pc.max(waited).as_py() >= 300_000


@pytest.mark.parametrize(
    ("direction", "sign"), [("past", -1), pytest.param("future", 1, marks=pytest.mark.slow)]
)
def test_skewed_timestamps_are_off_by_the_given_time(supervise, direction, sign) -> None:
    supervisor = supervise()
    guard = in_force(supervisor, SkewTimestamps(by="30m", direction=direction))
    recover_from(guard)
    await_acks(supervisor, supervisor.producers[0])
    assert settled(supervisor) == []
    assert set(outcomes(supervisor.producers[0])) == {"acked"}
    now = time.time() * 1000
    minutes = [(at - now) / 60_000 for at in timestamps(supervisor)]
    seen = [wanted for one in minutes for wanted in (0, sign * 30) if abs(one - wanted) < 5]
    assert set(seen) == {0, sign * 30}
    assert len(seen) == len(minutes)


def test_a_crashed_consumer_gets_a_successor_in_its_group(supervise) -> None:
    supervisor = supervise(consumers={"readers": {"members": 2}})
    guard = in_force(supervisor, CrashClient(client="consumer 1"))
    recover_from(guard)
    assert [one.spec.group for one in supervisor.consumers] == ["readers"] * 3
    assert RunClients(supervisor).running("consumer 1") == ["consumer 2"]
    assert RunClients(supervisor).running("consumers") == ["consumer 0", "consumer 2"]
    assert settled(supervisor) == []


def test_a_fault_without_a_running_client_is_not_verified(supervise) -> None:
    supervisor = supervise()
    assert settled(supervisor) == []
    guard = inject_fault(supervisor, PauseClient(client="producers"))
    assert "no client runs as producers" in guard.window.evidence


def test_faults_and_clients_have_the_same_orders() -> None:
    assert get_args(Told) == tuple(one.name.lower() for one in Order)
