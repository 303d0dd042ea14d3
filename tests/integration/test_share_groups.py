"""Share groups on brokers: what consumers record, when a group is at rest, and whole runs."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from docker import DockerClient
from rich.console import Console

from ackproof.clients.forwarding import messages_below
from ackproof.clients.process import ConsumerProcess
from ackproof.clients.specs import ShareSpec
from ackproof.cluster.booted import KafkaCluster
from ackproof.errors import ClusterError
from ackproof.execution import runner
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.ledger import arrow_stream, conversion
from ackproof.progress import ConsoleReporter
from ackproof.runs.verdict import Word
from ackproof.scenario.loader import load
from ackproof.scenario.topics import SHARES, coordinator_partition
from ackproof_model.share_groups.partition import Acknowledgement
from ackproof_spark.record import encoder
from ackproof_spark.tables import LOCATION
from documented import ROOT
from support.client_specs import consumer_spec
from waiting import until

pytestmark = pytest.mark.cluster

SENDS, LIMIT = 30, 2
LIBRDKAFKA: tuple[Acknowledgement, ...] = ("accept", "release", "reject")
#: The words of each client by its version; None is librdkafka.
WORDS: dict[str | None, tuple[Acknowledgement, ...]] = {
    None: LIBRDKAFKA,
    DEFAULT_KAFKA: (*LIBRDKAFKA, "renew"),
}
TABLES = ("acquisitions", "acknowledgements", "effects")
SENDS_OF_A_PROGRAM = "  application: {command: [python, examples/application.py]}\n"

Tables = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def filled(cluster: KafkaCluster) -> KafkaCluster:
    """The cluster, with `SENDS` records in a partition."""
    encode = encoder(run_id="run-1", producer=0, size=40)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for sequence in range(SENDS):
        producer.produce("orders", encode(sequence), partition=0)
    assert producer.flush(60) == 0
    return cluster


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(None, id="librdkafka"),
        pytest.param(DEFAULT_KAFKA, id="java", marks=pytest.mark.slow),
    ],
)
def recorded(
    filled: KafkaCluster, tmp_path_factory: Any, request: Any
) -> tuple[tuple[Acknowledgement, ...], Tables, str]:
    """The words of a consumer, its tables when its group is at rest, and the group."""
    java = request.param
    process = _start(filled, tmp_path_factory.mktemp("share"), java, WORDS[java])
    try:
        group = process.spec.group
        until(lambda: _lags(filled, group) == {0: 0}, "the group is not at rest")
        process.stop()
        assert process.wait(60) == 0, process.error
    finally:
        process.kill()
    return WORDS[java], _tables(process), group


def _start(
    cluster: KafkaCluster,
    run_dir: Path,
    java: str | None,
    words: tuple[Acknowledgement, ...],
    **fields: Any,
) -> ConsumerProcess:
    group = f"workers-{java}-{run_dir.name}"
    settings = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": LIMIT}
    cluster.admin.set_group(group, settings)
    files: dict[str, Any] = {
        one: arrow_stream.stream_path(run_dir, one, "consumer-0") for one in TABLES[:2]
    }
    process = ConsumerProcess(
        consumer_spec(
            run_dir,
            group=group,
            java=java,
            bootstrap_servers=cluster.bootstrap_servers,
            share=ShareSpec(acknowledge=words, **files),
            **fields,
        )
    )
    process.start()
    return process


def _tables(process: ConsumerProcess) -> Tables:
    run_dir = process.spec.progress.parent
    conversion.close(run_dir)
    return {
        table: pq.read_table(run_dir / LOCATION[table]).to_pylist()
        for table in TABLES
        if (run_dir / LOCATION[table]).exists()
    }


def _lags(cluster: KafkaCluster, group: str) -> dict[int, int | None]:
    try:
        positions = cluster.share_groups.positions(group)
    except ClusterError:  # no member has joined yet
        return {}
    return {one.partition: one.lag for one in positions if one.partition == 0}


def test_each_record_gets_the_word_of_its_offset_at_each_delivery(recorded) -> None:
    words, tables, _ = recorded
    word = {n: words[n % len(words)] for n in range(SENDS)}
    got = Counter(one["offset"] for one in tables["acquisitions"])
    assert got == {n: LIMIT if word[n] == "release" else 1 for n in range(SENDS)}
    counts = {(one["offset"], one["delivery_count"]) for one in tables["acquisitions"]}
    assert {count for offset, count in counts if word[offset] == "release"} == {1, 2}
    kinds = {(one["offset"], one["kind"]) for one in tables["acknowledgements"]}
    assert kinds == {*word.items()} | {(n, "accept") for n in word if word[n] == "renew"}
    answers = {(one["answered_at"] is None, one["error"]) for one in tables["acknowledgements"]}
    assert answers == {(False, None)}


def test_only_accepted_records_are_processed_and_keep_their_names(recorded) -> None:
    words, tables, _ = recorded
    processed = [(one["offset"], one["sequence"]) for one in tables["effects"]]
    accepted = [n for n in range(SENDS) if words[n % len(words)] in ("accept", "renew")]
    assert sorted(processed) == [(n, n) for n in accepted]


def test_the_share_coordinator_leads_the_partition_with_the_groups_state(
    filled: KafkaCluster, recorded
) -> None:
    _, _, group = recorded
    partitions = [key for key in filled.admin.partitions() if key[0] == SHARES]
    ends = filled.admin.end_offsets(partitions)
    settings = {"bootstrap.servers": filled.bootstrap_servers}
    keys = [(one.partition(), one.key()) for one in messages_below(ends, settings)]
    # A key ends with the number of the partition that the group reads.
    (partition,) = {
        number for number, key in keys if group.encode() in key and key.endswith(bytes(4))
    }
    metadata = filled.interfaces.metadata
    # The leader may change between the two questions.
    until(
        lambda: (
            metadata.share_coordinator(group, "orders", 0) == metadata.leader(SHARES, partition)
        ),
        "the coordinator does not lead the partition with the group's state",
    )
    key = f"{group}:{filled.admin.topic_id('orders')}:0"
    assert coordinator_partition(key, len(partitions)) == partition


@pytest.mark.slow
def test_a_java_consumer_that_is_killed_leaves_what_it_acquired_and_processed(
    filled: KafkaCluster, tmp_path: Path
) -> None:
    process = _start(filled, tmp_path, DEFAULT_KAFKA, ("accept",), crash_after=SENDS, poll=SENDS)
    try:
        assert process.wait(120) == -signal.SIGKILL, process.error
    finally:
        process.kill()
    tables = _tables(process)
    acquired = {one["offset"] for one in tables["acquisitions"]}
    last = max(one["poll"] for one in tables["acquisitions"])
    polled = sum(one["poll"] == last for one in tables["acquisitions"])
    assert acquired == set(range(SENDS))
    assert len(tables["effects"]) == SENDS - polled + polled // 2


@pytest.mark.slow
def test_a_java_client_accepts_a_poll_with_the_next_one(
    filled: KafkaCluster, tmp_path: Path
) -> None:
    process = _start(filled, tmp_path, DEFAULT_KAFKA, ())
    try:
        until(lambda: _lags(filled, process.spec.group) == {0: 0}, "the group is not at rest")
        process.stop()
        assert process.wait(60) == 0, process.error
    finally:
        process.kill()
    rows = _tables(process)["acknowledgements"]
    assert {(one["kind"], one["error"]) for one in rows} == {("accept", None)}
    assert sorted(one["offset"] for one in rows if one["answered_at"]) == list(range(SENDS))


def test_the_settings_of_a_group_in_force_are_read_back(filled: KafkaCluster) -> None:
    filled.admin.set_group("some", {"share.delivery.count.limit": LIMIT})
    until(
        lambda: filled.admin.group_settings("some")["share.delivery.count.limit"] == str(LIMIT),
        "the setting is not in force",
    )
    assert filled.admin.group_settings("some")["share.auto.offset.reset"] == "latest"


def test_brokers_refuse_a_setting_of_a_group_with_a_reason(cluster: KafkaCluster) -> None:
    with pytest.raises(ClusterError, match="the group 'other' cannot be configured") as refused:
        cluster.admin.set_group("other", {"share.record.lock.duration.ms": 10})
    assert "group_settings" in refused.value.hint


@pytest.fixture
def in_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples name their programs from there."""
    monkeypatch.chdir(ROOT)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("in_root")
@pytest.mark.parametrize("application", [False, True], ids=["ours", "application"])
@pytest.mark.parametrize(
    ("arm", "members"), [("one of ten released", 2), ("every record accepted", 1)]
)
def test_workers_of_the_user_are_judged_by_their_logs(
    arm: str,
    members: int,
    application: bool,
    engine: DockerClient,
    tmp_path: Path,
) -> None:
    """One of them is killed. A sole one that is killed has records in hand: it is at work then.

    application: the user's program sends, too.
    """
    text = (ROOT / "examples" / "share_worker.yaml").read_text()
    if application:
        text = text.replace("  rate: 200/s\n  records: 2000\n", SENDS_OF_A_PROGRAM)
    (tmp_path / "own.yaml").write_text(text.replace("members: 2", f"members: {members}"))
    (configured,) = [one for one in load(tmp_path / "own.yaml") if one.name == arm]
    reporter = ConsoleReporter(Console(stderr=True))
    run_dir, verdict = runner.run(configured, out=tmp_path, client=engine, reporter=reporter)
    assert verdict.verdict is Word.HOLDS, verdict.reason
    tenths = _at_multiples_of(10, run_dir)
    assert tenths
    given_up = len(tenths) if arm == "one of ten released" else 0
    assert verdict.observed["archived-unprocessed"] == given_up
    assert verdict.observed["reprocessed"] == 0
    if members == 1:
        assert verdict.observed["redelivered"] > 0


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("in_root")
def test_deliveries_that_name_no_record_of_the_application_are_inconclusive(
    engine: DockerClient, tmp_path: Path
) -> None:
    worker, example = tmp_path / "worker.py", ROOT / "examples" / "share_worker.py"
    worker.write_text(example.read_text().replace("key.decode()", "'another key'"))
    text = (ROOT / "examples" / "share_worker.yaml").read_text()
    text = text.replace("  rate: 200/s\n  records: 2000\n", SENDS_OF_A_PROGRAM)
    (tmp_path / "own.yaml").write_text(text.replace("examples/share_worker.py", str(worker)))
    configured = load(tmp_path / "own.yaml")[1]
    reporter = ConsoleReporter(Console(stderr=True))
    _, verdict = runner.run(configured, out=tmp_path, client=engine, reporter=reporter)
    assert verdict.verdict is Word.INCONCLUSIVE, verdict.reason
    assert "write digest and key of the record into its line `acquired`" in verdict.reason


def _at_multiples_of(number: int, run_dir: Path) -> set[tuple[int, int]]:
    """Return partition and sequence of the records at offsets that are multiples of a number."""
    return {
        (row["partition"], row["sequence"])
        for row in pq.read_table(run_dir / LOCATION["final_log"]).to_pylist()
        if row["offset"] % number == 0 and row["state"] == "intact"
    }


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("in_root")
def test_both_clients_recognize_the_records_of_an_application(
    engine: DockerClient, tmp_path: Path
) -> None:
    """Each of their groups gives up the records that it releases, and misses no other."""
    group = {"via": "share", "acknowledge": ["release", "accept", "accept"]}
    document = {
        "version": 1,
        "name": "both-clients",
        "topics": {"orders": {"partitions": 2}},
        "workload": {
            "topic": "orders",
            "seconds": "10s",
            "application": {"command": ["python", "examples/application.py"]},
            "settings": {"acks": "all", "enable.idempotence": True},
            "consumers": {"c": group, "java": {**group, "client": "java"}},
        },
        "expect": {"archived_unprocessed": "some"},
    }
    (tmp_path / "both.yaml").write_text(json.dumps(document))
    (configured,) = load(tmp_path / "both.yaml")
    reporter = ConsoleReporter(Console(stderr=True))
    run_dir, verdict = runner.run(configured, out=tmp_path, client=engine, reporter=reporter)
    assert verdict.verdict is Word.HOLDS, verdict.reason
    released = _at_multiples_of(3, run_dir)
    assert released
    assert verdict.observed["archived-unprocessed"] == 2 * len(released)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    "name",
    [
        *("b37-share-group-and-added-partitions", "b38-share-group-gives-up"),
        *("b39-dead-letters-below-min-isr", "b40-lock-expires"),
        "b41-log-shorter-than-share-state",
    ],
)
def test_each_case_shows_its_anomaly_and_its_twin_does_not(
    name: str, engine: DockerClient, tmp_path: Path
) -> None:
    arms = load(ROOT / "scenarios" / "catalogue" / f"{name}.yaml")
    reporter = ConsoleReporter(Console(stderr=True))
    for _, verdict in runner.run_suite(arms, out=tmp_path, client=engine, reporter=reporter):
        assert verdict.verdict is Word.HOLDS, verdict.reason
