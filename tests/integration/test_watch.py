"""`ackproof watch` on real brokers and a real Spark: what it finds, once, whatever fails."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions

from ackproof.cluster.booted import KafkaCluster
from ackproof.errors import ClusterError
from ackproof.scenario.topics import TopicSpec
from ackproof.waiting import wait_for
from ackproof_spark.errors import AnalysisError
from ackproof_spark.record import ID_HEADER
from ackproof_spark.spark.functions import SparkSession
from ackproof_spark.warehouse.formats import Format, Tables
from ackproof_spark.warehouse.sql_files import SCHEMA
from ackproof_spark.warehouse.warehouse import Warehouse
from ackproof_spark.watch.job import Watching, WatchOptions
from command_line import ackproof
from integration.command import started
from waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

#: How often the command is killed.
KILLS = 50 if os.environ.get("ACKPROOF_ALL_KILLS") else 5


class Application:
    """Sends records with ids that carry a sequence for each partition, and logs their acks."""

    def __init__(self, bootstrap: str, topic: str, log: Path) -> None:
        self.topic = topic
        self.log = log
        #: The offsets of each record, by its id.
        self.offsets: dict[str, list[int]] = {}
        self._settings = {"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0}
        self.producer = Producer(self._settings)
        self._sequences = {number: count() for number in range(3)}

    def transactional(self, name: str) -> None:
        self.producer = Producer({**self._settings, "transactional.id": name})
        self.producer.init_transactions(60)

    def send(self, partition: int, number: int = 1) -> list[str]:
        names = [f"p{partition}:{next(self._sequences[partition])}" for _ in range(number)]
        for name in names:
            self.write(partition, name)
        self.producer.flush(60)
        return names

    def write(self, partition: int, name: str, *, logged: bool = True) -> None:
        def on_delivery(error: Any, message: Any) -> None:
            assert error is None
            self.offsets.setdefault(name, []).append(message.offset())
            if logged:
                self.line(partition, message.offset(), name)

        self.producer.produce(
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
        self.producer.flush(60)


def await_long(look: Callable[[], bool], problem: Callable[[], str]) -> None:
    """Wait ten minutes: a process that starts Spark takes more than one on a busy machine."""
    wait_for(look, bool, within_s=600, every_s=0.1, failure=lambda _: ClusterError(problem()))


class Watched:
    """A watch in this process that is started again whenever its query fails."""

    def __init__(self, spark: SparkSession, folder: Path, options: WatchOptions) -> None:
        self.folder = folder
        warehouse = Warehouse.create(spark, str(folder / "warehouse"), Format.PARQUET)
        self.watching = Watching(warehouse, options, lambda found, partitions: None)
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

        await_long(look, lambda: f"{self.watching.partitions}, after {self.errors}")

    def rows(self) -> list[dict[str, Any]]:
        """Return the findings, as any reader of Parquet has them."""
        folder = self.folder / "warehouse" / SCHEMA / "watch_findings"
        return [
            row
            for file in folder.rglob("*.parquet")
            for row in pq.ParquetFile(file).read().to_pylist()
        ]


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


@pytest.mark.slow
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
    few = replace(options(cluster, "small", application.log), every_s=3)
    watched = Watched(spark, tmp_path, few)
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
@pytest.mark.table_format
@pytest.mark.parametrize("kind", [Format.PARQUET, Format.DELTA])
def test_sigkill_loses_and_repeats_nothing(
    cluster: KafkaCluster, spark: SparkSession, tmp_path: Path, kind: Format
) -> None:
    """Killed before the first look, amid a micro-batch, after its findings, after its end."""
    topic = f"killed-{kind}"
    cluster.create_topics({topic: TopicSpec(partitions=3)})
    log, into, metrics = (tmp_path / name for name in ("acked.jsonl", "warehouse", "m.prom"))
    log.touch()
    Warehouse.create(spark, str(into), kind)
    application = Application(cluster.bootstrap_servers, topic, log)
    command = ("watch", log, "--from-cluster", cluster.bootstrap_servers, "--topic", topic)
    timing = ("--patience", "3s", "--every", "0.5s")
    amid = ("state/offsets/*", "watch_findings/**/*.parquet", "state/commits/*")
    planted = Counter[tuple[str, int, int]]()
    acked = 0
    for turn in range(KILLS):
        process = started(*command, *timing, "--into", into)
        if turn:
            acked += plant(application, turn, planted)
            await_newer(process, into, amid[turn % 3])
        else:
            await_in(process, lambda: bool([*into.rglob("watch.json")]))
        process.kill()
        said = process.communicate()
        assert process.returncode == -signal.SIGKILL, said
        if not turn:  # above the offsets at which the watch began
            acked += plant(application, turn, planted)
    last = started(*command, *timing, "--into", into, "--metrics", metrics)
    wanted = {"acked": acked, "unseen": KILLS, "late": KILLS, "lost": KILLS}
    await_in(last, lambda: counted(metrics, *wanted) == wanted)
    last.send_signal(signal.SIGINT)
    said = last.communicate()
    assert last.returncode == 1, said
    rows = Warehouse.open(spark, str(into)).query("SELECT * FROM watch_findings")
    found = Counter((row["finding"], row["partition_id"], row["record_offset"]) for row in rows)
    assert found == planted
    assert len({row["watch"] for row in rows}) == 1


@pytest.mark.slow
def test_records_of_the_canary_that_an_unclean_election_takes_are_lost(
    cluster: KafkaCluster, spark: SparkSession, tmp_path: Path
) -> None:
    """Partition 0 loses its last records; partition 1 has a safe replica, and loses nothing."""
    shaky = {"unclean.leader.election.enable": True, "min.insync.replicas": 1}
    placed = TopicSpec(assignment=[[1, 2], [3, 1]], settings=shaky)
    cluster.create_topics({"canary": placed})
    acked, into, metrics = (tmp_path / name for name in ("acked", "warehouse", "m.prom"))
    acked.mkdir()
    Warehouse.create(spark, str(into), Format.PARQUET)
    process = started(
        *("watch", acked, "--from-cluster", cluster.bootstrap_servers, "--canary", "canary"),
        *("--patience", "3s", "--every", "0.5s", "--into", into, "--metrics", metrics),
    )

    def more_acked(number: int) -> None:
        before = counted(metrics, "acked")["acked"]
        await_in(process, lambda: counted(metrics, "acked")["acked"] >= before + number)

    more_acked(10)
    assert counted(metrics, "lost", "late", "doubled", "reordered", "undecided") == dict.fromkeys(
        ("lost", "late", "doubled", "reordered", "undecided"), 0
    )
    leader = cluster.interfaces.metadata.leader("canary", 0)
    assert leader is not None
    (other,) = {1, 2} - {leader}
    cluster.interfaces.processes.kill(other)
    until(
        lambda: cluster.interfaces.metadata.isr("canary", 0),
        good=lambda isr: list(isr or ()) == [leader],
    )
    more_acked(10)
    cluster.interfaces.processes.kill(leader)
    cluster.interfaces.processes.start(other)
    await_in(process, lambda: counted(metrics, "lost")["lost"] > 0)
    more_acked(10)
    cluster.interfaces.processes.start(leader)
    cluster.await_full_isr([("canary", 0), ("canary", 1)])
    process.send_signal(signal.SIGINT)
    said = process.communicate()
    assert process.returncode == 1, said
    rows = Warehouse.open(spark, str(into)).query("SELECT * FROM watch_findings")
    lost = {row["send"] for row in rows if row["finding"] == "lost"}
    sends = [json.loads(line) for file in acked.iterdir() for line in file.open()]
    assert lost == {f"id {send['id']}" for send in sends if send["partition"] == 0} - {
        f"id {name}" for name in names(cluster, "canary", 0)
    }
    assert {row["partition_id"] for row in rows if row["finding"] == "lost"} == {0}


def names(cluster: KafkaCluster, topic: str, partition: int) -> Iterator[str]:
    """Yield the ids of the records of a partition."""
    [end] = cluster.admin.end_offsets([(topic, partition)]).values()
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "test"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    offset = -1
    while offset < end - 1:
        for message in consumer.consume(100, 1):
            offset = message.offset()
            yield dict(message.headers())[ID_HEADER].decode()
    consumer.close()


def plant(application: Application, turn: int, planted: Counter[tuple[str, int, int]]) -> int:
    """Send 63 records with one anomaly of each kind; return how many sends the log has."""
    partition = turn % 3
    names = [name for number in range(3) for name in application.send(number, 20)]
    first, second, third = (f"extra{turn}:{n}" for n in (0, 2, 1))
    for name in (first, second, third):  # the last two are in the wrong order
        application.write(partition, name)
    copied = names[20 * partition + 3]
    application.write(partition, copied, logged=False)
    application.flush()
    taken = application.offsets[first][0]
    application.line(partition, taken, f"lost:{turn}")
    application.line(partition, 10**6 + turn, f"gone:{turn}")
    planted["lost", partition, taken] += 1
    planted["late", partition, 10**6 + turn] += 1
    planted["doubled", partition, application.offsets[copied][1]] += 1
    planted["reordered", partition, application.offsets[third][0]] += 1
    return 65


def await_newer(process: subprocess.Popen[str], into: Path, pattern: str) -> None:
    """Wait until there is a new file, or the process has ended."""

    before = {*into.rglob(pattern)}
    await_in(process, lambda: bool({*into.rglob(pattern)} - before))


def await_in(process: subprocess.Popen[str], look: Callable[[], bool]) -> None:
    """Wait until it is true, or the process has ended."""
    await_long(lambda: process.poll() is not None or look(), lambda: "not seen in ten minutes")


def counted(metrics: Path, *names: str) -> dict[str, int]:
    """Return sums over the partitions of a watch."""
    text = metrics.read_text() if metrics.exists() else ""
    return {
        name: sum(
            int(float(n)) for n in re.findall(rf"^ackproof_watch_{name}{{.*}} (.+)", text, re.M)
        )
        for name in names
    }


@pytest.mark.slow
def test_read_committed_takes_aborted_records_for_lost_and_open_ones_for_late(
    cluster: KafkaCluster, spark: SparkSession, tmp_path: Path
) -> None:
    """The acked log names them although they are not committed."""
    cluster.create_topics({"paid": TopicSpec(partitions=1)})
    application = Application(cluster.bootstrap_servers, "paid", tmp_path / "acked.jsonl")
    application.log.touch()
    application.transactional("watch")
    watched = Watched(
        spark, tmp_path, replace(options(cluster, "paid", application.log), committed=True)
    )
    application.producer.begin_transaction()
    application.send(0, 10)
    application.producer.commit_transaction(60)
    application.producer.begin_transaction()
    aborted = application.send(0, 5)
    application.producer.abort_transaction(60)
    application.producer.begin_transaction()
    application.send(0, 10)
    application.producer.commit_transaction(60)
    application.producer.begin_transaction()
    still_open = application.send(0, 3)
    watched.drain(partial(decided, acked=28, planted=8))
    application.producer.commit_transaction(60)
    watched.drain(lambda partitions: not total(partitions, "unseen"))
    watched.watching.stop()
    found = [(row["finding"], row["send"]) for row in watched.rows()]
    assert sorted(found) == [
        *(("found", f"id {name}") for name in still_open),
        *(("late", f"id {name}") for name in still_open),
        *(("lost", f"id {name}") for name in aborted),
    ]


@pytest.mark.slow
def test_added_partitions_are_watched_from_their_first_record(
    cluster: KafkaCluster, spark: SparkSession, tmp_path: Path
) -> None:
    """Partition 1 is added while the watch runs, partition 2 while it does not."""
    cluster.create_topics({"growing": TopicSpec(partitions=1)})
    application = Application(cluster.bootstrap_servers, "growing", tmp_path / "acked.jsonl")
    watched = Watched(spark, tmp_path, options(cluster, "growing", application.log))
    for partition in range(3):
        if partition:
            grow(cluster, application, partition + 1)
        application.send(partition, 10)
        application.line(partition, 3, f"lost:{partition}")
        if partition == 2:
            watched = Watched(spark, tmp_path, options(cluster, "growing", application.log))
        lost = partition + 1
        watched.drain(partial(decided, acked=11 * lost, planted=lost))
        if partition == 1:
            watched.watching.stop()
    watched.watching.stop()
    found = [(row["finding"], row["partition_id"], row["send"]) for row in watched.rows()]
    assert sorted(found) == [("lost", number, f"id lost:{number}") for number in range(3)]


def grow(cluster: KafkaCluster, application: Application, partitions: int) -> None:
    topic, client = application.topic, cluster.admin.client()
    client.create_partitions([NewPartitions(topic, partitions)])[topic].result(60)
    cluster.await_full_isr([(topic, number) for number in range(partitions)])
    until(
        lambda: application.producer.list_topics(topic, 10).topics[topic].partitions,
        good=lambda known: len(known) == partitions,
    )


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
        ([log, *server], 2, "name a topic to compare, or --canary"),
        ([tmp_path, *server, "--canary", "nowhere"], 2, "has no topic 'nowhere'"),
        ([log, *server, "--canary", "orders"], 2, "name a folder that exists first"),
        ([tmp_path, *server, "--topic", "orders", "--canary", "orders"], 2, "own topic"),
        ([tmp_path, "--from-cluster", "127.0.0.1:9", "--canary", "orders"], 4, "does not answer"),
        ([log, *server, "--topic", "orders", "--patience", "soon"], 2, "'soon' is not a time"),
    ):
        assert ackproof("watch", *given, "--into", tmp_path / "w") == code
        assert said in capsys.readouterr().err
