"""Disk faults, observed by a client, in the broker's log or by the controller, and healed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from docker import DockerClient

from ackproof.cluster.booted import KafkaCluster
from ackproof.containers import commands, kafka_tools
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.topics import TopicSpec
from ackproof_faults import FaultError
from ackproof_faults.disk.damaged import (
    DeleteIndex,
    OldCheckpoint,
    ReplaceDisk,
    TruncateIndex,
    WipePartition,
    WipeVolume,
)
from ackproof_faults.disk.flip_byte import FlipByte
from ackproof_faults.disk.power_loss import PowerLoss
from ackproof_faults.disk.unreachable import DiskFull, FailLogDir
from integration.faulting import in_force, recover
from integration.sending import log_end
from kafka_clusters import NOTICED, boot, shared_or
from waiting import until

pytestmark = pytest.mark.cluster

ROUNDS = 12
SIZE = 100_000


@pytest.fixture(scope="module")
def two_directories(engine: DockerClient) -> Iterator[KafkaCluster]:
    """Three brokers with two log directories each on a disk of 200 MB, and short sessions."""
    spec = ClusterSpec(log_dirs=2, disk="200m", settings=NOTICED)
    with boot(engine, spec) as cluster:
        yield cluster


@pytest.fixture
def disks(request: pytest.FixtureRequest) -> KafkaCluster:
    return shared_or("two_directories", request)


@pytest.fixture
def topic(disks: KafkaCluster) -> Iterator[str]:
    """A topic of two partitions, led by broker 1, with `ROUNDS` records each and full segments."""
    name = f"t-{uuid4().hex[:6]}"
    spec = TopicSpec(
        assignment=[[1, 2, 3], [1, 2, 3]],
        settings={"segment.bytes": 1 << 20, "min.insync.replicas": 1},
    )
    disks.create_topics({name: spec})
    producer = Producer(
        {"bootstrap.servers": disks.bootstrap_servers, "acks": "all", "linger.ms": 0}
    )
    for number in range(ROUNDS):
        for partition in (0, 1):
            value = number.to_bytes(4, "big") * (SIZE // 4)
            producer.produce(name, value, partition=partition)
        assert producer.flush(60) == 0
    producer.close()
    yield name
    disks.admin.delete_topics([name])


def places(topic: str) -> list[tuple[str, int]]:
    return [(topic, 0), (topic, 1)]


def ends(cluster: KafkaCluster, topic: str) -> tuple[int, int]:
    """Return the end offset of each partition."""
    return log_end(cluster, topic, 0)[0], log_end(cluster, topic, 1)[0]


def consumed(cluster: KafkaCluster, topic: str, partition: int) -> str:
    """Return what Kafka's own consumer says, which checks CRCs, after `ROUNDS` records or 5 s.

    Without a configuration, log4j 2 prints errors where the records go: to standard output.
    """
    tool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    arguments = (
        f"--bootstrap-server broker-1:9092 --topic {topic} --partition {partition} "
        f"--offset earliest --max-messages {ROUNDS} --timeout-ms 5000 2>&1 "
        "| grep -aoE 'Record is corrupt|Processed a total of [0-9]+ messages' || :"
    )
    return commands.run_script(
        cluster.nodes[2], kafka_tools.kafka_command((tool,), arguments), "the consumer"
    )


def test_power_loss_loses_the_last_records(disks: KafkaCluster, topic: str) -> None:
    assert ends(disks, topic) == (ROUNDS, ROUNDS)
    fault = PowerLoss(target="all", partitions=f"{topic}-0", last=3)
    guard = in_force(disks, fault)
    assert f"broker 2 {topic}-0: ends at {ROUNDS - 3}, not {ROUNDS}" in guard.window.evidence
    recover(disks, guard, places(topic))
    assert ends(disks, topic) == (ROUNDS - 3, ROUNDS)


@pytest.mark.slow
def test_power_loss_on_one_broker_is_repaired_by_replication(
    disks: KafkaCluster, topic: str
) -> None:
    guard = in_force(disks, PowerLoss(target=3, partitions=[f"{topic}-0", f"{topic}-1"]))
    assert "ends at 0" in guard.window.evidence
    recover(disks, guard, places(topic))
    assert ends(disks, topic) == (ROUNDS, ROUNDS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "fields", "line"),
    [
        (PowerLoss, {"to_offset": ROUNDS - 1, "torn": True}, "Corruption found in segment"),
        (WipePartition, {}, "Created log for partition {}-0"),
    ],
)
def test_a_torn_or_wiped_partition_is_repaired(
    disks: KafkaCluster, topic: str, kind: type[PowerLoss | WipePartition], fields: Any, line: str
) -> None:
    began = datetime.now(UTC)
    guard = in_force(disks, kind(target=2, partitions=f"{topic}-0", **fields))
    recover(disks, guard, places(topic))
    said = disks.interfaces.logs.await_line(2, line.format(topic), since=began, within_s=60)
    assert f"{topic}-0" in said
    assert ends(disks, topic) == (ROUNDS, ROUNDS)


@pytest.mark.slow
def test_a_wiped_volume_comes_back_with_other_directories(disks: KafkaCluster, topic: str) -> None:
    identity = f"{disks.interfaces.volumes.log_directories(3)[0]}/meta.properties"
    before = disks.interfaces.volumes.read_file(3, identity)
    guard = in_force(disks, WipeVolume(target=3))
    recover(disks, guard, places(topic))
    assert disks.interfaces.volumes.read_file(3, identity) != before
    assert ends(disks, topic) == (ROUNDS, ROUNDS)


@pytest.mark.slow
def test_one_of_two_disks_is_replaced(disks: KafkaCluster, topic: str) -> None:
    places_of = [f"{one}/meta.properties" for one in disks.interfaces.volumes.log_directories(3)]
    before = [disks.interfaces.volumes.read_file(3, path) for path in places_of]
    guard = in_force(disks, ReplaceDisk(target=3, log_dir=2))
    recover(disks, guard, places(topic))
    after = [disks.interfaces.volumes.read_file(3, path) for path in places_of]
    assert (after[0] == before[0], after[1] == before[1]) == (True, False)


@pytest.mark.slow
@pytest.mark.parametrize("segment", ["active", "closed"])
def test_a_flipped_byte_is_found_by_a_consumer(
    disks: KafkaCluster, topic: str, segment: str
) -> None:
    fault = FlipByte.model_validate(
        {"fault": "flip_byte", "target": 1, "partitions": f"{topic}-0", "segment": segment}
    )
    with in_force(disks, fault) as guard:
        assert "Record is corrupt" in consumed(disks, topic, 0)
    assert guard.recovered()
    assert f"Processed a total of {ROUNDS} messages" in consumed(disks, topic, 0)
    with pytest.raises(FaultError, match="is unchanged"):
        fault.verify(disks.interfaces, [1], guard.done)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DeleteIndex, TruncateIndex])
def test_damaged_indexes_are_rebuilt(
    disks: KafkaCluster, topic: str, kind: type[DeleteIndex | TruncateIndex]
) -> None:
    began = datetime.now(UTC)
    guard = in_force(disks, kind(target=2, partitions=[f"{topic}-0", f"{topic}-1"]))
    recover(disks, guard, places(topic))
    assert disks.interfaces.logs.await_line(
        2, "Recovering unflushed segment", since=began, within_s=60
    )
    index = disks.interfaces.volumes.run(
        2, f"ls -s {disks.interfaces.volumes.log_directories(2)[0]}*/{topic}-0/*.index"
    )
    assert "0000.index" in index.output
    assert ends(disks, topic) == (ROUNDS, ROUNDS)


@pytest.mark.slow
def test_old_checkpoints_delay_recovery_and_lose_no_record(disks: KafkaCluster, topic: str) -> None:
    began = datetime.now(UTC)
    guard = in_force(disks, OldCheckpoint(target="all"))
    recover(disks, guard, places(topic))
    assert disks.interfaces.logs.await_line(
        1, "Recovering unflushed segment 0", since=began, within_s=60
    )
    assert ends(disks, topic) == (ROUNDS, ROUNDS)


@pytest.mark.slow
def test_a_failed_log_directory_takes_its_replicas_out_of_the_isr(
    disks: KafkaCluster, topic: str
) -> None:
    failed = disks.interfaces.volumes.log_directories(2)[1]
    listed = disks.interfaces.volumes.run(2, f"ls {failed}").output.split()
    gone = [n for n in (0, 1) if f"{topic}-{n}" in listed]
    assert len(gone) == 1  # Kafka deals partitions to directories in turn
    with in_force(disks, FailLogDir(target=2)) as guard:
        until(
            lambda: [2 in (disks.interfaces.metadata.isr(topic, n) or ()) for n in (0, 1)],
            good=lambda seen: seen == [n not in gone for n in (0, 1)],
        )
    recover(disks, guard, places(topic))


@pytest.mark.slow
def test_a_full_disk_refuses_writes_until_it_is_freed(disks: KafkaCluster, topic: str) -> None:
    producer = Producer(
        {"bootstrap.servers": disks.bootstrap_servers, "acks": "all", "log_level": 0}
    )
    with in_force(disks, DiskFull(target=2)) as guard:
        producer.produce(topic, b"x" * SIZE, partition=0)
        until(
            lambda: disks.interfaces.processes.exit_status(2),
            "the broker runs on a full disk",
            good=lambda status: status is not None,
        )
    recover(disks, guard, places(topic))
    assert producer.flush(60) == 0
    producer.close()
