"""`ackproof watch` on real brokers and a real Spark: what it finds, once, whatever fails."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ackproof.cluster.booted import KafkaCluster
from ackproof.errors import ClusterError
from ackproof.scenario.topics import TopicSpec
from ackproof.waiting import wait_for
from ackproof_spark.errors import AnalysisError
from ackproof_spark.record import ID_HEADER
from ackproof_spark.spark.functions import SparkSession
from ackproof_spark.warehouse.formats import Format, Tables
from ackproof_spark.warehouse.warehouse import Warehouse
from ackproof_spark.watch.job import Watching, WatchOptions
from command_line import ackproof
from waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


class Application:
    """Sends records with ids that carry a sequence for each partition, and logs their acks."""

    def __init__(self, bootstrap: str, topic: str, log: Path) -> None:
        self.topic = topic
        self.log = log
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
        self._sequences = {number: count() for number in range(3)}

    def send(self, partition: int, number: int = 1) -> list[str]:
        names = [f"p{partition}:{next(self._sequences[partition])}" for _ in range(number)]
        for name in names:
            self.write(partition, name)
        self._producer.flush(60)
        return names

    def write(self, partition: int, name: str, *, logged: bool = True) -> None:
        def on_delivery(error: Any, message: Any) -> None:
            assert error is None
            if logged:
                self.line(partition, message.offset(), name)

        self._producer.produce(
            self.topic,
            b"x",
            partition=partition,
            headers={ID_HEADER: name},
            on_delivery=on_delivery,
        )

    def line(self, partition: int, offset: int, name: str) -> None:
        row = {"topic": self.topic, "partition": partition, "offset": offset, "id": name}
        with self.log.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def flush(self) -> None:
        self._producer.flush(60)


class Watched:
    """A watch in this process that is started again whenever its query fails."""

    def __init__(self, spark: SparkSession, folder: Path, options: WatchOptions) -> None:
        self.warehouse = Warehouse.create(spark, str(folder / "warehouse"), Format.PARQUET)
        self.watching = Watching(self.warehouse, options, lambda found, partitions: None)
        self.errors: list[str] = []

    def drain(self, done: Callable[[Mapping[Any, Mapping[str, Any]]], bool]) -> None:
        """Wait until the counts of the partitions are as wanted."""

        def look() -> bool:
            try:
                self.watching.active()
            except AnalysisError as error:
                self.errors.append(str(error))
                self.watching.restart()
            return done(self.watching.partitions)

        wait_for(
            look,
            bool,
            within_s=600,
            every_s=0.1,
            failure=lambda _: ClusterError(f"{self.watching.partitions}, after {self.errors}"),
        )

    def rows(self) -> list[dict[str, Any]]:
        return self.warehouse.query(
            "SELECT finding, partition_id, record_offset, records, send FROM watch_findings"
        )


def total(partitions: Mapping[Any, Mapping[str, Any]], name: str) -> int:
    return sum(row[name] for row in partitions.values())


def decided(partitions: Mapping[Any, Mapping[str, Any]], *, acked: int, planted: int) -> bool:
    late, unseen = total(partitions, "late"), total(partitions, "unseen")
    lost = total(partitions, "lost")
    return total(partitions, "acked") >= acked and late == unseen and late + lost == planted


def options(cluster: KafkaCluster, topic: str, log: Path) -> WatchOptions:
    return WatchOptions(
        bootstrap_servers=cluster.bootstrap_servers,
        topics=[topic],
        acked_paths=[str(log)],
        start={topic: {str(number): 0 for _, number in cluster.partitions() if _ == topic}},
        patience_s=2,
        every_s=0.5,
    )


def test_a_lost_send_and_a_copy_are_found(
    cluster: KafkaCluster, spark: SparkSession, tmp_path: Path
) -> None:
    """The small one, with one partition."""
    cluster.create_topics({"small": TopicSpec(partitions=1)})
    application = Application(cluster.bootstrap_servers, "small", tmp_path / "acked.jsonl")
    copied = application.send(0, 20)[3]
    application.line(0, 7, "lost:1")
    application.write(0, copied, logged=False)
    application.flush()
    watched = Watched(spark, tmp_path, options(cluster, "small", application.log))
    watched.drain(partial(decided, acked=21, planted=1))
    watched.watching.stop()
    found = [(row["finding"], row["record_offset"], row["send"]) for row in watched.rows()]
    assert sorted(found) == [("doubled", 20, None), ("lost", 7, "id lost:1")]


@pytest.mark.slow
@pytest.mark.parametrize("failures", [5, 50])
def test_what_was_planted_is_written_once_however_often_the_query_fails(
    cluster: KafkaCluster,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failures: int,
) -> None:
    """It fails before and after a micro-batch has written its rows, and Spark runs it again."""
    topic = f"watched-{failures}-{tmp_path.name[-4:].strip(chr(95))}"
    cluster.create_topics({topic: TopicSpec(partitions=3)})
    log = tmp_path / "acked.jsonl"
    log.touch()
    application = Application(cluster.bootstrap_servers, topic, log)
    draw = random.Random(failures)
    left = failures
    written = Tables.replace_runs

    def failing(self: Tables, table: str, *args: Any) -> None:
        nonlocal left
        early = draw.random() < 0.5
        fails = left > 0 and draw.random() < 0.7
        if fails and early:
            left -= 1
            raise OSError("planted, before it is written")
        written(self, table, *args)
        if fails:
            left -= 1
            raise OSError("planted, after it was written")

    monkeypatch.setattr(Tables, "replace_runs", failing)
    watched = Watched(spark, tmp_path, options(cluster, topic, log))
    planted: set[tuple[str, int, str | None]] = set()
    acked = 0
    for round_ in count():
        for partition in range(3):
            names = application.send(partition, 20)
            acked += 20
            if round_ % 3 == partition:
                application.line(partition, 10**6 + round_, f"gone:{round_}")
                planted.add(("late", partition, f"id gone:{round_}"))
                application.line(partition, 20 * round_ + 1, f"lost:{round_}")
                planted.add(("lost", partition, f"id lost:{round_}"))
                acked += 2
                application.write(partition, names[3], logged=False)
        application.flush()
        watched.drain(partial(decided, acked=acked, planted=len(planted)))
        if left == 0 and round_ >= 3:
            break
    watched.watching.stop()
    rows = watched.rows()
    found = [(row["finding"], row["partition_id"], row["send"]) for row in rows]
    assert sorted(each for each in found if each[0] != "doubled") == sorted(planted)
    doubled = [row for row in rows if row["finding"] == "doubled"]
    assert len(doubled) == round_ + 1
    assert len(watched.errors) >= failures


@pytest.mark.slow
def test_a_truncation_is_seen_and_what_it_took_is_lost(
    cluster: KafkaCluster, spark: SparkSession, tmp_path: Path
) -> None:
    """Two replicas; the second lacks records, leads by an unclean election, and gets others."""
    unclean = {"unclean.leader.election.enable": True, "min.insync.replicas": 1}
    cluster.create_topics(
        {"shaky": TopicSpec(partitions=1, replication_factor=2, settings=unclean)}
    )
    log = tmp_path / "acked.jsonl"
    log.touch()
    application = Application(cluster.bootstrap_servers, "shaky", log)
    watched = Watched(spark, tmp_path, options(cluster, "shaky", log))
    application.send(0, 100)
    watched.drain(lambda partitions: total(partitions, "acked") == 100)
    leader = cluster.interfaces.metadata.leader("shaky", 0)
    assert leader is not None
    (other,) = set(cluster.interfaces.metadata.replicas("shaky", 0)) - {leader}
    cluster.interfaces.processes.kill(other)
    until(
        lambda: cluster.interfaces.metadata.isr("shaky", 0),
        good=lambda isr: list(isr or ()) == [leader],
    )
    taken = application.send(0, 50)
    watched.drain(
        lambda partitions: total(partitions, "acked") == 150 and not total(partitions, "unseen")
    )
    cluster.interfaces.processes.kill(leader)
    cluster.interfaces.processes.start(other)
    until(lambda: cluster.interfaces.metadata.leader("shaky", 0), good=lambda now: now == other)
    application.send(0, 80)  # the log is longer than before, so that its end shows nothing
    watched.drain(lambda partitions: total(partitions, "lost") == 50)
    watched.drain(
        lambda partitions: total(partitions, "acked") == 230 and not total(partitions, "unseen")
    )
    watched.watching.stop()
    cluster.interfaces.processes.start(leader)
    cluster.await_full_isr([("shaky", 0)])
    lost = {row["send"] for row in watched.rows() if row["finding"] == "lost"}
    assert lost == {f"id {name}" for name in taken}
    [truncated] = [row for row in watched.rows() if row["finding"] == "truncated"]
    assert (truncated["record_offset"], truncated["records"]) == (100, 50)


@pytest.mark.slow
def test_wrong_input_is_one_line(
    cluster: KafkaCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "acked.jsonl"
    log.touch()
    server = ("--from-cluster", cluster.bootstrap_servers)
    for given, code, said in (
        ([tmp_path / "none", *server, "--topic", "orders"], 2, "there is no acked log"),
        ([log, *server, "--topic", "nowhere"], 2, "has no topic 'nowhere'"),
        ([*server, "--topic", "orders"], 2, "name an acked log that grows, or --acked-topic"),
        ([log, *server, "--topic", "orders", "--patience", "soon"], 2, "'soon' is not a time"),
    ):
        assert ackproof("watch", *given, "--into", tmp_path / "w") == code
        assert said in capsys.readouterr().err
