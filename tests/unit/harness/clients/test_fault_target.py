"""Client processes that are stopped, ended and misled, against librdkafka's mock cluster."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pyarrow.compute as pc
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from ackproof.clients import ProducerProcess
from ackproof.clients.fault_target import StruckClients
from ackproof.clients.shared_page import Order, State
from ackproof.clients.supervisor import Crew
from ackproof.ledger.producer_ledger import recover
from ackproof.scenario.model import Scenario
from ackproof_faults import (
    Fault,
    FaultError,
    Guard,
    inject,
)
from ackproof_faults.clients.crash_client import CrashClient
from ackproof_faults.clients.fill_buffer import FillBuffer
from ackproof_faults.clients.pause_client import PauseClient
from ackproof_faults.clients.purge_client import PurgeClient
from ackproof_faults.clients.skew_timestamps import SkewTimestamps
from ackproof_faults.clients.slow_client import SlowClient
from ackproof_faults.interfaces.clients import Clients
from ackproof_faults.interfaces.clients import Order as Told
from integration.command import clock
from unit.faults.fake_cluster import FakeCluster
from unit.harness.clients.mock_cluster import mock_cluster
from waiting import until

WITHIN = 30.0


def scenario(**workload: object) -> Scenario:
    return Scenario.model_validate(
        {
            "version": 1,
            "name": "struck",
            "topics": {"orders": {"partitions": 4}},
            "workload": {
                "topic": "orders",
                "records": 1_000_000,
                "seconds": "60s",
                "rate": 2000,
                "settings": {"acks": "all", "enable.idempotence": False, "linger.ms": 20},
                **workload,
            },
        }
    )


def cluster_with(clients: Clients) -> FakeCluster:
    return FakeCluster(clients=clients)


@pytest.fixture
def crew_of(tmp_path: Path) -> Iterator[Callable[..., Crew]]:
    crews: list[Crew] = []
    (tmp_path / "ledger").mkdir()
    with mock_cluster() as cluster:

        def make(**workload: object) -> Crew:
            crew = Crew(
                scenario(**workload), tmp_path, bootstrap_servers=cluster.bootstrap, secrets={}
            )
            crews.append(crew)
            crew.__enter__()
            until(lambda: all(one.progress().acked > 0 for one in crew.producers))
            return crew

        yield make
        for crew in crews:
            crew.__exit__(None, None, None)


def strike(crew: Crew, fault: Fault) -> Guard:
    return inject(fault, cluster_with(StruckClients(crew)), clock=clock)


def struck(crew: Crew, fault: Fault) -> Guard:
    """Show that it is not proved before it is injected, and return it in force."""
    with pytest.raises(FaultError):
        fault.verify(cluster_with(StruckClients(crew)), [1], ())
    guard = strike(crew, fault)
    assert guard.window.verified, guard.window.evidence
    return guard


def recover_from(guard: Guard) -> None:
    guard.heal()
    until(guard.recovered)


def go_on(crew: Crew, producer: ProducerProcess) -> None:
    before = producer.progress().acked
    until(lambda: producer.progress().acked > before)


def outcomes(process: ProducerProcess) -> dict[str, int]:
    assert process.spec.ledger is not None
    counts = pc.value_counts(recover(process.spec.ledger)["outcome"]).to_pylist()
    return {row["values"]: row["counts"] for row in counts}


def timestamps(crew: Crew) -> list[int]:
    """Return those of all records, as a consumer reads them; milliseconds."""
    spec = crew.producers[0].spec
    consumer = Consumer({"bootstrap.servers": spec.bootstrap_servers, "group.id": "t"})
    consumer.assign([TopicPartition("orders", n, OFFSET_BEGINNING) for n in range(4)])
    found: list[int] = []
    while len(found) < crew.progress().acked:
        found += [message.timestamp()[1] for message in consumer.consume(1000, timeout=10)]
    consumer.close()
    return found


def settled(crew: Crew) -> list[str]:
    crew.stop_producers()
    return crew.await_producers()


def test_a_client_that_loads_is_not_stopped_before_it_can_outlive_its_harness(crew_of):
    crew = crew_of()
    clients = StruckClients(crew)
    clients.end("producer 0", "kill")
    heir = clients.succeed("producer 0")
    assert crew.producers[1].state is State.LOADING
    clients.stop(heir)
    assert crew.producers[1].state is not State.LOADING
    clients.go_on(heir)
    assert settled(crew) == []


def test_a_paused_producer_stands_still_until_it_is_healed(crew_of) -> None:
    crew = crew_of(producers=2)
    still, other = crew.producers
    guard = struck(crew, PauseClient(client="producer 0"))
    before = still.progress()
    go_on(crew, other)
    assert still.progress() == before
    assert not guard.recovered()
    assert "is already stopped" in strike(crew, PauseClient(client="producer 0")).window.evidence
    recover_from(guard)
    go_on(crew, still)
    assert settled(crew) == []


@pytest.mark.parametrize(("how", "code"), [("kill", -signal.SIGKILL), ("exit", 70)])
def test_a_crashed_producer_is_succeeded_and_no_trouble(crew_of, how, code) -> None:
    crew = crew_of(settings={"acks": "all", "enable.idempotence": False, "linger.ms": 1000})
    guard = struck(crew, CrashClient(client="producers", how=how))
    first = crew.producers[0]
    assert first.returncode == code
    assert crew.tend(), "the workload waits for who takes its place"
    recover_from(guard)
    guard.fault.heal(cluster_with(StruckClients(crew)), [1], ("producer 0",))  # twice is a no-op
    first, heir = crew.producers
    assert first.spec.records - heir.spec.records == first.progress().sent
    assert outcomes(first)["unknown"] > 0, "what lingered was not waited for"
    assert StruckClients(crew).running("producer 0") == ["producer 1"]
    assert StruckClients(crew).running("producers") == ["producer 1"]
    assert settled(crew) == []


def test_a_fault_that_lasts_until_the_end_leaves_a_successor_that_ends(crew_of) -> None:
    crew = crew_of()
    guard = struck(crew, CrashClient(client="producer 0"))
    crew.stop_producers()
    guard.heal()
    assert crew.await_producers() == []
    heir = crew.producers[1]
    assert heir.returncode == 0
    assert heir.progress().sent == 0


def test_a_process_that_ended_on_its_own_is_a_trouble(crew_of) -> None:
    crew = crew_of()
    os.kill(crew.producers[0].pid, signal.SIGKILL)
    until(lambda: not crew.tend())
    (trouble,) = settled(crew)
    assert "producer 0 ended with -9" in trouble


def test_a_full_buffer_refuses_and_loses_nothing(crew_of) -> None:
    crew = crew_of()
    (producer,) = crew.producers
    guard = struck(crew, FillBuffer())
    assert "refused for a full queue" in guard.window.evidence
    assert producer.progress().sent - producer.progress().acked > 50_000
    recover_from(guard)
    assert producer.order is Order.NOTHING
    assert settled(crew) == []
    assert set(outcomes(producer)) == {"acked"}
    assert producer.progress().under_way == 0


@pytest.mark.parametrize(
    ("what", "codes"),
    [("queue", {"_PURGE_QUEUE"}), ("all", {"_PURGE_QUEUE", "_PURGE_INFLIGHT"})],
)
def test_what_is_purged_is_failed_or_unknown(crew_of, what, codes) -> None:
    crew = crew_of()
    (producer,) = crew.producers
    guard = struck(crew, PurgeClient(what=what))
    recover_from(guard)
    go_on(crew, producer)
    assert settled(crew) == []
    table = recover(producer.spec.ledger)
    assert {"_PURGE_QUEUE"} <= set(table["error"].drop_null().to_pylist()) <= codes
    assert outcomes(producer)["failed"] > 0, "not sent yet, and the sole attempt"
    assert producer.progress().under_way == 0


def test_a_slow_callback_delays_outcomes(crew_of) -> None:
    crew = crew_of()
    (producer,) = crew.producers
    guard = struck(crew, SlowClient(client="producers", delay="300ms"))
    clash = strike(crew, PurgeClient())
    assert "does something wrong already: dawdle" in clash.window.evidence
    recover_from(guard)
    assert settled(crew) == []
    table = recover(producer.spec.ledger)
    waited = pc.subtract(table["resolved_at"], table["sent_at"]).cast("int64")
    assert pc.max(waited).as_py() >= 300_000


@pytest.mark.parametrize(("direction", "sign"), [("past", -1), ("future", 1)])
def test_records_bear_timestamps_that_are_off(crew_of, direction, sign) -> None:
    crew = crew_of()
    guard = struck(crew, SkewTimestamps(by="30m", direction=direction))
    recover_from(guard)
    go_on(crew, crew.producers[0])
    assert settled(crew) == []
    assert set(outcomes(crew.producers[0])) == {"acked"}
    now = time.time() * 1000
    minutes = [(at - now) / 60_000 for at in timestamps(crew)]
    seen = [wanted for one in minutes for wanted in (0, sign * 30) if abs(one - wanted) < 5]
    assert set(seen) == {0, sign * 30}
    assert len(seen) == len(minutes)


def test_a_consumer_is_succeeded_by_a_member_of_its_group(crew_of) -> None:
    crew = crew_of(consumers={"readers": {"members": 2}})
    guard = struck(crew, CrashClient(client="consumer 1"))
    recover_from(guard)
    assert [one.spec.group for one in crew.consumers] == ["readers"] * 3
    assert StruckClients(crew).running("consumer 1") == ["consumer 2"]
    assert StruckClients(crew).running("consumers") == ["consumer 0", "consumer 2"]
    assert settled(crew) == []


def test_who_is_not_there_cannot_be_hit(crew_of) -> None:
    crew = crew_of()
    assert settled(crew) == []
    guard = strike(crew, PauseClient(client="producers"))
    assert "no client runs as producers" in guard.window.evidence


def test_faults_and_clients_have_the_same_orders() -> None:
    assert get_args(Told) == tuple(one.name.lower() for one in Order)
