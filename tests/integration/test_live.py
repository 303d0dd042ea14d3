"""The live view of a run, and reading of topics during faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from ackproof.cluster.booted import KafkaCluster
from ackproof.scenario.topics import TopicSpec
from ackproof_spark.live.topic_source import Offset, TopicReader
from ackproof_spark.tables import LOCATION
from integration.command import ROOT, ackproof, printed
from waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def losing(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """The acks=1 configuration of scenarios/acks.yaml with `--live`: directory, verdict, output."""
    folder = tmp_path_factory.mktemp("live")
    base, _, _ = (ROOT / "scenarios" / "acks.yaml").read_text().partition("\nmatrix:")
    scenario = folder / "acks-1.yaml"
    scenario.write_text(base.replace("acks: all", "acks: 1") + "\nexpect: {loss: some}\n")
    result = ackproof("run", "--live", scenario, "--json", "--out", folder / "runs")
    assert result.returncode == 0, result.stdout + result.stderr
    verdict = printed(result)
    return folder / "runs" / verdict["run_id"], verdict, result.stderr


def names(path: Path, **wanted: str) -> set[tuple[int, int]]:
    rows = pq.read_table(path).to_pylist()
    return {
        (row["producer"], row["sequence"])
        for row in rows
        if all(row[key] == value for key, value in wanted.items())
    }


def test_every_lost_record_was_found_during_the_run(
    losing: tuple[Path, dict[str, Any], str],
) -> None:
    run_dir, verdict, _ = losing
    lost = names(run_dir / LOCATION["anomalies"], anomaly="lost")
    assert len(lost) == verdict["observed"]["lost"] > 100
    assert names(run_dir / LOCATION["live_findings"], finding="lost") == lost


def test_the_job_counts_the_rows_of_the_ledger(losing: tuple[Path, dict[str, Any], str]) -> None:
    run_dir, verdict, _ = losing
    totals = pq.read_table(run_dir / LOCATION["live_partitions"]).to_pylist()
    for word in ("acked", "failed", "unknown"):
        assert sum(row[word] for row in totals) == verdict["observed"][word]
    assert sum(row["candidates"] for row in totals) == verdict["observed"]["lost"]
    # The end marker of each partition is read as well.
    assert sum(row["read"] for row in totals) == sum(
        file.metadata.num_rows
        for file in map(pq.ParquetFile, (run_dir / LOCATION["final_log"]).glob("*.parquet"))
    ) + len(totals)


def test_without_a_terminal_the_view_is_printed_as_lines(
    losing: tuple[Path, dict[str, Any], str],
) -> None:
    _, verdict, messages = losing
    lines = [" ".join(part.split()) for part in messages.split("live: ")[1:]]
    assert len(lines) >= 2
    assert f"{verdict['observed']['lost']:,} loss candidates" in lines[-1]


class Follower:
    """Reads a topic like the streaming job, without Spark."""

    def __init__(self, bootstrap: str, *topics: str) -> None:
        self.reader = TopicReader({"bootstrap.servers": bootstrap}, topics)
        self.offset: Offset = {}
        self.records: list[tuple[str, int, int, bytes]] = []

    def until(self, done: Callable[[list[tuple[str, int, int, bytes]]], bool]) -> None:
        def look() -> bool:
            batches, self.offset = self.reader.read(self.offset)
            for batch in batches:
                self.records += [
                    (row["topic"], row["partition"], row["offset"], row["value"])
                    for row in batch.to_pylist()
                ]
            return done(self.records)

        until(look)


def produce(bootstrap: str, topic: str, value: bytes, count: int, *, partition: int = 0) -> None:
    """Write with acks=1 and wait for all acks."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": 1, "linger.ms": 0, "log_level": 0})
    for _ in range(count):
        producer.produce(topic, value, partition=partition)
    assert producer.flush(60) == 0


def test_a_truncated_log_is_read_again_from_where_it_was_truncated(cluster: KafkaCluster) -> None:
    """Two replicas; the second lacks 500 records and becomes leader by an unclean election."""
    bootstrap = cluster.bootstrap_servers
    unclean = {"unclean.leader.election.enable": True, "min.insync.replicas": 1}
    cluster.create_topics(
        {"unclean": TopicSpec(partitions=1, replication_factor=2, settings=unclean)}
    )
    produce(bootstrap, "unclean", b"both", 1000)
    follower = Follower(bootstrap, "unclean", "orders")
    # Below the high watermark, so the other replica has them as well.
    follower.until(lambda records: len(records) == 1000)
    leader = cluster.interfaces.metadata.leader("unclean", 0)
    assert leader is not None
    (other,) = set(cluster.interfaces.metadata.replicas("unclean", 0)) - {leader}
    cluster.interfaces.processes.kill(other)
    until(
        lambda: cluster.interfaces.metadata.isr("unclean", 0),
        good=lambda isr: list(isr or ()) == [leader],
    )
    produce(bootstrap, "unclean", b"first", 500)
    follower.until(lambda records: len(records) == 1500)
    assert follower.offset["unclean"]["0"][0] == 1500

    cluster.interfaces.processes.kill(leader)
    cluster.interfaces.processes.start(other)
    until(lambda: cluster.interfaces.metadata.leader("unclean", 0), good=lambda now: now == other)
    # More than were lost: the log is longer than the position again, so the position alone does
    # not show the truncation.
    produce(bootstrap, "unclean", b"second", 800)
    follower.until(lambda records: len(records) >= 2300)
    follower.reader.stop()
    cluster.interfaces.processes.start(leader)
    cluster.await_full_isr([("unclean", 0)])
    assert [(offset, value) for _, _, offset, value in follower.records] == [
        *((offset, b"both") for offset in range(1000)),
        *((offset, b"first") for offset in range(1000, 1500)),
        *((offset, b"second") for offset in range(1000, 1800)),
    ]


def test_a_partition_without_a_leader_does_not_block_the_others(cluster: KafkaCluster) -> None:
    bootstrap = cluster.bootstrap_servers
    cluster.create_topics({"single": TopicSpec(partitions=3, replication_factor=1)})
    for partition in range(3):
        produce(bootstrap, "single", b"before", 10, partition=partition)
    follower = Follower(bootstrap, "single")
    follower.until(lambda records: len(records) == 30)
    victim = cluster.interfaces.metadata.leader("single", 0)
    assert victim is not None
    others = [p for p in range(3) if cluster.interfaces.metadata.leader("single", p) != victim]
    assert others
    cluster.interfaces.processes.kill(victim)
    for partition in others:
        produce(bootstrap, "single", b"meanwhile", 10, partition=partition)
    follower.until(lambda records: len(records) == 30 + 10 * len(others))
    cluster.interfaces.processes.start(victim)
    produce(bootstrap, "single", b"after", 10, partition=0)
    follower.until(lambda records: len(records) == 40 + 10 * len(others))
    follower.reader.stop()
    cluster.await_full_isr([("orders", 0)])
