"""Faults of clients on a real broker, each seen by the broker or another client; and healed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message
from docker import DockerClient

from ackproof.clients.fault_target import StruckClients
from ackproof.clients.process import ProducerProcess
from ackproof.clients.supervisor import Crew
from ackproof.cluster.cluster import KafkaCluster
from ackproof.ledger.producer_ledger import recover as ledger_of
from ackproof.scenario.model import ClusterSpec, Scenario, TopicSpec
from ackproof_faults.clients.crash_client import CrashClient
from ackproof_faults.clients.fill_buffer import FillBuffer
from ackproof_faults.clients.pause_client import PauseClient
from ackproof_faults.clients.purge_client import PurgeClient
from ackproof_faults.clients.rebalance_storm import RebalanceStorm
from ackproof_faults.clients.skew_timestamps import SkewTimestamps
from ackproof_faults.clients.slow_client import SlowClient
from ackproof_spark.record import decode
from integration.faulting import in_force, recover
from integration.reading import records
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
            alone.interfaces.offer("clients", StruckClients(crew))
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
    assert alone.interfaces.logs.await_line(1, "to rebalance group slow", since=began, within_s=60)
    recover(alone, guard)
    assert settled(crew) == []


@pytest.mark.slow
def test_a_storm_has_the_coordinator_rebalance(alone: KafkaCluster, employ: Employ) -> None:
    crew = employ(consumers={"stormy": {"members": 2}})
    until(lambda: any(one.progress().acked > 0 for one in crew.consumers))
    began = datetime.now(UTC)
    guard = in_force(alone, RebalanceStorm(client="consumer 0", every="500ms"))
    assert alone.interfaces.logs.await_line(
        1, "to rebalance group stormy", since=began, within_s=60
    )
    recover(alone, guard)
    assert settled(crew) == []


@pytest.mark.slow
def test_a_full_buffer_has_reports_wait_and_loses_nothing(
    alone: KafkaCluster, employ: Employ
) -> None:
    crew = employ(rate=2000)
    (producer,) = crew.producers
    with in_force(alone, FillBuffer()) as guard:
        acked = producer.progress().acked
        until(lambda: end(alone, crew) > acked + 1000)  # written, and nobody takes the reports
        assert producer.progress().acked == acked
    recover(alone, guard)
    acks_go_on(producer)
    assert settled(crew) == []
    ledger = ledger_of_first(crew)
    assert set(ledger["outcome"].to_pylist()) == {"acked"}
    assert end(alone, crew) == ledger.num_rows


@pytest.mark.parametrize("what", ["queue", "all"])
def test_what_is_purged_is_not_acked_and_not_in_the_topic(
    alone: KafkaCluster, employ: Employ, what: Literal["queue", "all"]
) -> None:
    crew = employ(rate=2000)
    (producer,) = crew.producers
    guard = in_force(alone, PurgeClient(what=what))
    before = producer.progress().failed
    until(lambda: producer.progress().failed > before)  # each time round, not once
    recover(alone, guard)
    acks_go_on(producer)
    assert settled(crew) == []
    ledger = ledger_of_first(crew)
    written = sequences(records(alone, producer.spec.topic))
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
    # What was handed over after the producer was told to go on was never purged.
    later = ledger.filter(pc.greater(ledger["sent_at"], pa.scalar(guard.window.healed_at)))
    assert set(later["outcome"].to_pylist()) == {"acked"}


def test_skewed_timestamps_are_in_the_log_from_inject_to_heal(
    alone: KafkaCluster, employ: Employ
) -> None:
    crew = employ(rate=200)
    (producer,) = crew.producers

    def newest() -> int:
        """Return by how many minutes the newest record's timestamp is off."""
        *_, last = records(alone, producer.spec.topic, first=end(alone, crew) - 1)
        return minutes_off(last)

    until(lambda: newest() == 0)
    guard = in_force(alone, SkewTimestamps(by="90m"))
    until(lambda: newest() == -90)
    recover(alone, guard)
    until(lambda: newest() == 0)
    assert settled(crew) == []
    offs = [minutes_off(one) for one in records(alone, producer.spec.topic)]
    assert [off for off, _ in itertools.groupby(offs)] == [0, -90, 0]
    assert set(ledger_of_first(crew)["outcome"].to_pylist()) == {"acked"}


def test_timestamps_too_far_in_the_future_are_refused_until_they_are_right_again(
    alone: KafkaCluster, employ: Employ
) -> None:
    crew = employ(rate=200)
    (producer,) = crew.producers
    # Beyond message.timestamp.after.max.ms, an hour since 4.0 (KIP-1030).
    guard = in_force(alone, SkewTimestamps(by="90m", direction="future"))
    until(lambda: producer.progress().failed + producer.progress().unknown > 0)
    recover(alone, guard)
    acks_go_on(producer)
    assert settled(crew) == []
    ledger = ledger_of_first(crew)
    written = records(alone, producer.spec.topic)
    assert {minutes_off(one) for one in written} == {0}
    assert of_outcome(ledger, "acked") == set(sequences(written))
    assert "INVALID_TIMESTAMP" in ledger["error"].to_pylist()
    # The first that were right may have been in one batch with the last that were not.
    later = ledger.filter(pc.greater(ledger["sent_at"], pa.scalar(guard.window.healed_at)))
    right = [one == "acked" for one in later.sort_by("sequence")["outcome"].to_pylist()]
    assert right == sorted(right)
    assert right[-1]


def ledger_of_first(crew: Crew) -> pa.Table:
    """Return what the first producer says became of its sends."""
    path = crew.producers[0].spec.ledger
    assert path is not None
    return ledger_of(path)


def of_outcome(ledger: pa.Table, outcome: str) -> set[int]:
    """Return the sequences of the sends that ended so."""
    return set(ledger.filter(pc.equal(ledger["outcome"], outcome))["sequence"].to_pylist())


def sequences(found: Sequence[Message]) -> list[int]:
    """Return which sends of the first producer these records are."""
    decoded = [decode(one.value() or b"") for one in found]
    assert all(one is not None and one[1] == 0 for one in decoded)
    return [one[2] for one in decoded if one is not None]


def minutes_off(record: Message) -> int:
    """Return by how much a record's timestamp differs from now, to the next half hour."""
    kind, stamp = record.timestamp()
    assert kind == TIMESTAMP_CREATE_TIME
    return round((stamp / 1000 - datetime.now(UTC).timestamp()) / 1800) * 30
