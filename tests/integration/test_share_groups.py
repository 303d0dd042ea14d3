"""Share groups on brokers: what consumers record, when a group is at rest, and whole runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from docker import DockerClient
from rich.console import Console

from ackproof.clients.process import ConsumerProcess
from ackproof.clients.specs import ShareSpec
from ackproof.cluster.booted import KafkaCluster
from ackproof.errors import ClusterError
from ackproof.execution import runner
from ackproof.ledger import arrow_stream, conversion
from ackproof.progress import ConsoleReporter
from ackproof.runs.verdict import Word
from ackproof.scenario.loader import load
from ackproof.scenario.share_groups import Acknowledgement
from ackproof_spark.record import encoder
from ackproof_spark.tables import LOCATION
from documented import ROOT
from support.client_specs import consumer_spec
from waiting import until

pytestmark = pytest.mark.cluster

SENDS, LIMIT = 30, 2
WORDS: tuple[Acknowledgement, ...] = ("accept", "release", "reject")


@pytest.fixture(scope="module")
def recorded(cluster: KafkaCluster, tmp_path_factory: Any) -> dict[str, list[dict[str, Any]]]:
    """The tables of a share group that was given `SENDS` records until it was at rest."""
    run_dir = tmp_path_factory.mktemp("share")
    encode = encoder(run_id="run-1", producer=0, size=40)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for sequence in range(SENDS):
        producer.produce("orders", encode(sequence), partition=0)
    assert producer.flush(60) == 0
    settings = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": LIMIT}
    cluster.admin.set_group("workers", settings)
    process = ConsumerProcess(_spec(run_dir, cluster.bootstrap_servers))
    process.start()
    try:
        until(lambda: _lags(cluster) == {0: 0}, "the group is not at rest")
        process.stop()
        assert process.wait(60) == 0, process.error
    finally:
        process.kill()
    conversion.close(run_dir)
    return {
        table: pq.read_table(run_dir / LOCATION[table]).to_pylist()
        for table in ("acquisitions", "acknowledgements", "effects")
    }


def _spec(run_dir: Path, bootstrap: str) -> Any:
    tables = ("acquisitions", "acknowledgements")
    files = {one: arrow_stream.stream_path(run_dir, one, "consumer-0") for one in tables}
    share = ShareSpec(acknowledge=WORDS, **files)
    return consumer_spec(run_dir, group="workers", bootstrap_servers=bootstrap, share=share)


def _lags(cluster: KafkaCluster) -> dict[int, int | None]:
    try:
        positions = cluster.share_groups.positions("workers")
    except ClusterError:  # no member has joined yet
        return {}
    return {one.partition: one.lag for one in positions if one.partition == 0}


def test_each_record_gets_the_word_of_its_offset_at_each_delivery(recorded) -> None:
    got = Counter(one["offset"] for one in recorded["acquisitions"])
    assert got == {n: LIMIT if WORDS[n % 3] == "release" else 1 for n in range(SENDS)}
    counts = {(one["offset"], one["delivery_count"]) for one in recorded["acquisitions"]}
    assert {count for offset, count in counts if WORDS[offset % 3] == "release"} == {1, 2}
    kinds = {(one["offset"], one["kind"]) for one in recorded["acknowledgements"]}
    assert kinds == {(n, WORDS[n % 3]) for n in range(SENDS)}
    answers = {(one["answered_at"] is None, one["error"]) for one in recorded["acknowledgements"]}
    assert answers == {(False, None)}


def test_only_accepted_records_are_processed_and_keep_their_names(recorded) -> None:
    processed = [(one["offset"], one["sequence"]) for one in recorded["effects"]]
    assert sorted(processed) == [(n, n) for n in range(0, SENDS, len(WORDS))]


def test_brokers_refuse_a_setting_of_a_group_with_a_reason(cluster: KafkaCluster) -> None:
    with pytest.raises(ClusterError, match="the group 'other' cannot be configured") as refused:
        cluster.admin.set_group("other", {"share.record.lock.duration.ms": 10})
    assert "group_settings" in refused.value.hint


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    "name",
    ["b37-share-group-and-added-partitions", "b38-share-group-gives-up", "b40-lock-expires"],
)
def test_each_case_shows_its_anomaly_and_its_twin_does_not(
    name: str, engine: DockerClient, tmp_path: Path
) -> None:
    arms = load(ROOT / "scenarios" / "catalogue" / f"{name}.yaml")
    reporter = ConsoleReporter(Console(stderr=True))
    for _, verdict in runner.run_suite(arms, out=tmp_path, client=engine, reporter=reporter):
        assert verdict.verdict is Word.HOLDS, verdict.reason
