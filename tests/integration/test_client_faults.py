"""Faults of clients on a real broker, each seen by the broker or another client; and healed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from docker import DockerClient

from ackproof.faults.crash_client import CrashClient
from ackproof.faults.fill_buffer import FillBuffer
from ackproof.faults.pause_client import PauseClient
from ackproof.faults.purge_client import PurgeClient
from ackproof.faults.rebalance_storm import RebalanceStorm
from ackproof.faults.slow_client import SlowClient
from ackproof.harness.clients.process import ProducerProcess
from ackproof.harness.cluster.cluster import KafkaCluster
from ackproof.harness.crew import Crew
from ackproof.harness.ledger import recover as ledger_of
from ackproof.harness.scenario import ClusterSpec, Scenario, TopicSpec
from ackproof.harness.struck_clients import StruckClients
from integration.faulting import in_force, recover
from integration.sending import log_end
from kafka_clusters import boot
from waiting import until

pytestmark = pytest.mark.cluster

Employ = Callable[..., Crew]


@pytest.fixture(scope="module")
def alone(engine: DockerClient) -> Iterator[KafkaCluster]:
    """One broker: clients are what goes wrong here."""
    with boot(engine, ClusterSpec(brokers=1, heap="128m")) as cluster:
        yield cluster


@pytest.fixture
def employ(alone: KafkaCluster, tmp_path: Path) -> Iterator[Employ]:
    """Start a workload's clients on a topic of their own, until something is acked."""
    with ExitStack() as stack:

        def start(**workload: object) -> Crew:
            topic = f"t-{uuid4().hex[:8]}"
            alone.create_topics({topic: TopicSpec(replication_factor=1)})
            scenario = Scenario.model_validate(
                {
                    "version": 1,
                    "name": "clients",
                    "cluster": {"brokers": 1},
                    "topics": {topic: {"replication_factor": 1}},
                    "workload": {
                        "topic": topic,
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
            crew = Crew(scenario, tmp_path, bootstrap_servers=alone.bootstrap_servers, secrets={})
            stack.enter_context(crew)
            alone.run_clients = StruckClients(crew)
            until(lambda: crew.progress().acked > 0)
            return crew

        yield start


def acks_go_on(producer: ProducerProcess) -> None:
    before = producer.progress().acked
    until(lambda: producer.progress().acked > before)


def end(cluster: KafkaCluster, crew: Crew) -> int:
    """Return the partition's high watermark, as the broker tells it."""
    return log_end(cluster, crew.producers[0].spec.topic)[0]


def settled(crew: Crew) -> list[str]:
    crew.stop_producers()
    return crew.await_producers()


def test_a_paused_producer_whose_place_is_taken_is_a_zombie_and_is_fenced(
    alone: KafkaCluster, employ: Employ
) -> None:
    crew = employ(transactions={"size": 50})
    guard = in_force(alone, PauseClient(client="producer 0", successor=True, within="60s"))
    zombie, heir = crew.producers
    acks_go_on(heir)
    recover(alone, guard)
    until(lambda: zombie.returncode is not None)
    assert "FENCED" in zombie.error  # so the broker has told it
    acks_go_on(heir)
    assert settled(crew) == []


def test_a_crashed_producer_writes_nothing_until_another_takes_its_place(
    alone: KafkaCluster, employ: Employ
) -> None:
    crew = employ()
    guard = in_force(alone, CrashClient(client="producers"))
    before = end(alone, crew)
    recover(alone, guard)
    until(lambda: end(alone, crew) > before)
    assert settled(crew) == []
    first, heir = crew.producers
    acked = first.progress().acked + heir.progress().acked
    assert acked <= end(alone, crew) <= first.progress().sent + heir.progress().sent


@pytest.mark.slow
def test_an_open_transaction_of_who_exits_is_aborted_by_the_next_with_its_id(
    alone: KafkaCluster, employ: Employ
) -> None:
    crew = employ(transactions={"size": 20})
    guard = in_force(alone, CrashClient(client="producer 0", how="exit"))
    recover(alone, guard)
    first, heir = crew.producers
    assert first.spec.transactions is not None
    assert heir.spec.transactions is not None
    assert first.spec.transactions.transactional_id == heir.spec.transactions.transactional_id
    acks_go_on(heir)
    assert settled(crew) == []


@pytest.mark.slow
def test_a_slow_consumer_is_out_of_its_group(alone: KafkaCluster, employ: Employ) -> None:
    settings = {"max.poll.interval.ms": 6000, "session.timeout.ms": 6000}
    crew = employ(consumers={"slow": {"settings": settings}})
    until(lambda: crew.consumers[0].progress().acked > 0)
    began = datetime.now(UTC)
    fault = SlowClient(client="consumer 0", delay="9s", within="80s")
    guard = in_force(alone, fault)
    assert alone.await_logged(1, "to rebalance group slow", since=began, within_s=60)
    recover(alone, guard)
    assert settled(crew) == []


@pytest.mark.slow
def test_a_storm_has_the_coordinator_rebalance(alone: KafkaCluster, employ: Employ) -> None:
    crew = employ(consumers={"stormy": {"members": 2}})
    until(lambda: any(one.progress().acked > 0 for one in crew.consumers))
    began = datetime.now(UTC)
    guard = in_force(alone, RebalanceStorm(client="consumer 0", every="500ms"))
    assert alone.await_logged(1, "to rebalance group stormy", since=began, within_s=60)
    recover(alone, guard)
    assert settled(crew) == []


@pytest.mark.slow
def test_a_full_buffer_and_a_purge_are_no_loss_of_what_is_acked(
    alone: KafkaCluster, employ: Employ
) -> None:
    crew = employ(rate=2000)
    (producer,) = crew.producers
    guard = in_force(alone, FillBuffer())
    recover(alone, guard)
    acks_go_on(producer)
    guard = in_force(alone, PurgeClient())
    recover(alone, guard)
    acks_go_on(producer)
    assert settled(crew) == []
    assert producer.spec.ledger is not None
    outcomes = ledger_of(producer.spec.ledger)["outcome"].to_pylist()
    assert outcomes.count("failed") > 0
    assert outcomes.count("acked") <= end(alone, crew) <= len(outcomes) - outcomes.count("failed")
