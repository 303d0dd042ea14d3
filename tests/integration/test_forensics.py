"""Segments of real brokers, compared with the output of Kafka's own tool and after damage."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from docker.errors import APIError

from ackproof.cluster.booted import KafkaCluster
from ackproof.containers import commands
from ackproof.containers.kafka_tools import TOOLS
from ackproof.observation.replica_logs import take_replica_logs
from ackproof.runs.directory import write_table
from ackproof_spark.forensics.segments import Batch, batches
from ackproof_spark.reading.final_log import PartitionEnd
from ackproof_spark.tables import LOCATION, PARTITION_ENDS, REPLICA_LOGS
from integration.sending import await_markers

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SEGMENT = "00000000000000000000.log"
DUMP = TOOLS["kafka-dump-log"]


@pytest.fixture(scope="module")
def written(cluster: KafkaCluster) -> KafkaCluster:
    """The cluster with every codec, tombstones and transaction markers in orders-0."""
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "acks": "all",
                "linger.ms": 20,
                "compression.type": codec,
                "enable.idempotence": codec != "none",
                "log_level": 0,
            }
        )
        for number in range(50):
            headers = [("h", b"1"), ("null", None)] if number % 7 == 0 else None
            producer.produce("orders", b"value " * 9, partition=0, headers=headers)
        producer.produce("orders", None, key=b"tombstone", partition=0)
        assert producer.flush(60) == 0
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": "t",
            "log_level": 0,
        }
    )
    producer.init_transactions()
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce("orders", b"in a transaction", partition=0)
        assert producer.flush(60) == 0
        end()
    await_markers(cluster, [("orders", 0)])
    # The marker is acked by all, so every replica has it and all records before it.
    cluster.admin.write_end_markers([("orders", 0)])
    return cluster


Change = Callable[[bytes], bytes]


@dataclass(frozen=True, kw_only=True)
class Tampered:
    """A broker whose segment of orders-0 is modified when it is copied from the container.

    No command runs in its container, as in one that has ended.
    """

    node: Any
    change: Change
    id: str = "tampered"

    @property
    def directories(self) -> Sequence[str]:
        directories: Sequence[str] = self.node.directories
        return directories

    @property
    def container(self) -> Tampered:
        return self

    client = api = container

    def exec_create(self, container: str, command: list[str], **_: object) -> None:
        raise APIError("the container is not running")

    def get_archive(self, path: str) -> tuple[Iterator[bytes], None]:
        chunks, _ = self.node.container.get_archive(path)
        copy = io.BytesIO()
        with (
            tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as original,
            tarfile.open(fileobj=copy, mode="w") as changed,
        ):
            for member in original:
                if member.name.endswith(SEGMENT):
                    segment = original.extractfile(member)
                    assert segment is not None
                    content = self.change(segment.read())
                    member.size = len(content)
                    changed.addfile(member, io.BytesIO(content))
        return (chunk for chunk in [copy.getvalue()]), None


def taken(
    cluster: KafkaCluster, run_dir: Path, tampered: dict[int, Change] | None = None
) -> list[dict[str, Any]]:
    run_dir.mkdir()
    nodes: dict[int, Any] = {broker: cluster.nodes[broker] for broker in cluster.broker_ids()}
    for broker, change in (tampered or {}).items():
        nodes[broker] = Tampered(node=nodes[broker], change=change)
    logs = take_replica_logs(nodes, {("orders", 0): (1, 2, 3)}, run_dir)
    write_table(run_dir / LOCATION["replica_logs"], REPLICA_LOGS, run_dir.name, logs)
    end = cluster.admin.write_end_markers([("orders", 0)])["orders", 0]
    ends = [PartitionEnd(topic="orders", partition=0, begin_offset=0, end_offset=end)]
    write_table(run_dir / LOCATION["partition_ends"], PARTITION_ENDS, run_dir.name, ends)
    rows = pq.read_table(run_dir / LOCATION["replica_batches"]).to_pylist()
    return sorted(rows, key=lambda row: (row["broker"], row["position"]))


_BATCH = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) baseSequence: (-?\d+) lastSequence: -?\d+ "
    r"producerId: (-?\d+) producerEpoch: (-?\d+) partitionLeaderEpoch: (\d+) "
    r"isTransactional: (\w+) isControl: (\w+) .*?position: (\d+) \w+: (\d+) size: (\d+) "
    r"magic: (\d) compresscodec: (\w+) crc: (\d+) isvalid: (\w+)"
)
_COLUMNS = (
    *("base_offset", "last_offset", "records", "base_sequence", "producer_id", "producer_epoch"),
    *("leader_epoch", "transactional", "control", "position", "max_timestamp", "size", "magic"),
    *("codec", "crc", "crc_ok"),
)


def test_batches_equal_the_output_of_kafkas_tool(written: KafkaCluster, tmp_path: Path) -> None:
    node = written.nodes[1]
    path = f"{node.spec.directories[0]}/orders-0/{SEGMENT}"
    dump = commands.run_kafka_tool(
        node, DUMP, "--print-data-log", "--deep-iteration", "--files", path
    )
    rows = [row for row in taken(written, tmp_path / "run") if row["broker"] == 1]
    ours = [tuple(str(row[name]).lower() for name in _COLUMNS) for row in rows]
    assert ours == _BATCH.findall(dump)
    assert {row["codec"] for row in rows} == set(CODECS)
    assert {row["control"] for row in rows} == {True, False}


def _middle(segment: bytes) -> Batch:
    found = list(batches(io.BytesIO(segment), size=len(segment)))
    return found[len(found) // 2]


def _flip(segment: bytes) -> bytes:
    last = _middle(segment).position + _middle(segment).size - 1
    return segment[:last] + bytes([segment[last] ^ 1]) + segment[last + 1 :]


def _cut(segment: bytes) -> bytes:
    return segment[: _middle(segment).position + 70]


def found(spark: Any, run_dir: Path) -> list[tuple[int, str]]:
    from ackproof_spark.forensics.differences import diverged, first_differences, in_sync_batches
    from ackproof_spark.reading.run_tables import StoredRun

    read, _ = in_sync_batches(StoredRun(spark=spark, run_dir=run_dir))
    rows = diverged(read, first_differences(read).collect()).collect()
    return [(row["offset"], row["found"]) for row in rows]


def test_replicas_of_a_real_partition_agree(
    written: KafkaCluster, spark: Any, tmp_path: Path
) -> None:
    taken(written, tmp_path / "run")
    assert found(spark, tmp_path / "run") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_flip, "which the bytes do not match"),
        (_cut, "broker 2: no batch starts here"),
    ],
)
def test_a_byte_flipped_or_a_log_cut_on_one_broker_is_found(
    change: Change, said: str, written: KafkaCluster, spark: Any, tmp_path: Path
) -> None:
    rows = taken(written, tmp_path / "run", {2: change})
    ((offset, evidence),) = found(spark, tmp_path / "run")
    whole = [row for row in rows if row["broker"] == 1]
    assert offset == whole[len(whole) // 2]["base_offset"]
    assert said in evidence
    assert evidence.index("broker 2") < evidence.index("broker 3")
    (log,) = [
        row
        for row in pq.read_table(tmp_path / "run" / LOCATION["replica_logs"]).to_pylist()
        if row["broker"] == 2
    ]
    assert log["torn_bytes"] == (70 if change is _cut else 0)
