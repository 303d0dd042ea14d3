"""Two readers of the same log agree, also on transactions; a difference is detected."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from ackproof.cluster.booted import KafkaCluster
from ackproof.execution.final_log import take_final_log
from ackproof.runs.directory import table_rows
from ackproof_spark import job
from ackproof_spark.errors import ConnectorMissing
from ackproof_spark.reading import final_log, kafka_source, two_readers
from ackproof_spark.reading.final_log import (
    Isolation,
    PartitionEnd,
    Reader,
    read_final_log,
    read_records,
)
from ackproof_spark.reading.two_readers import disagreements, store_disagreements
from ackproof_spark.record import encoder
from ackproof_spark.spark import connector
from ackproof_spark.tables import LOCATION
from integration.sending import await_markers

# ruff: noqa: PLR0917  fixtures and parameters
pytestmark = [pytest.mark.cluster, pytest.mark.spark]

TOPIC = "orders"
RUN_ID = "run-of-readers"
#: Records of a transaction: committed ones are even, aborted ones odd.
BATCH = 20


@pytest.fixture(scope="module", autouse=True)
def jars() -> None:
    connector.resolve()


@pytest.fixture(scope="module")
def ends(cluster: KafkaCluster) -> list[PartitionEnd]:
    """Partition 0 ends with an aborted transaction, 1 with a committed one; 2 is empty."""
    producer = Producer(
        {**cluster.client_settings, "bootstrap.servers": cluster.bootstrap_servers}
        | {"transactional.id": uuid4().hex}
    )
    producer.init_transactions(60)
    encode = encoder(run_id=RUN_ID, producer=0, size=64)
    for number in range(7):
        for partition in (0, 1):
            producer.begin_transaction()
            for sequence in range(BATCH):
                producer.produce(
                    TOPIC,
                    encode(number * BATCH + sequence),
                    partition=partition,
                    headers=[("name", str(sequence).encode()), ("empty", None)],
                )
            producer.flush(60)  # what is only queued, an abort would drop unsent
            if (number + partition) % 2 == 0:
                producer.abort_transaction(60)
            else:
                producer.commit_transaction(60)
    places = [(TOPIC, partition) for partition in range(3)]
    await_markers(cluster, places)
    found = cluster.admin.write_end_markers(places)
    return [
        PartitionEnd(topic=topic, partition=partition, begin_offset=0, end_offset=end)
        for (topic, partition), end in sorted(found.items())
    ]


def read(spark, cluster: KafkaCluster, ends, reader: Reader, isolation: Isolation):
    return read_final_log(
        spark,
        run_id=RUN_ID,
        bootstrap_servers=cluster.bootstrap_servers,
        ends=ends,
        options={},
        reader=reader,
        isolation=isolation,
    )


def places_of(frame) -> list[tuple[int, int, int]]:
    return sorted(
        (row["partition"], row["offset"], row["sequence"])
        for row in frame.select("partition", "offset", "sequence").collect()
    )


@pytest.mark.parametrize(
    "isolation",
    [Isolation.READ_COMMITTED, pytest.param(Isolation.READ_UNCOMMITTED, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize(
    "small",
    [True, pytest.param(False, marks=pytest.mark.slow)],
    ids=["in this process", "by Spark's tasks"],
)
def test_both_readers_return_the_same_records(
    spark, cluster, ends, isolation: Isolation, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not small:
        monkeypatch.setattr(final_log, "_SMALL", 0)
    readings = {
        reader.value: read(spark, cluster, ends, reader, isolation).cache() for reader in Reader
    }
    assert disagreements(readings) is None
    seen = [places_of(frame) for frame in readings.values()]
    assert seen[0] == seen[1]
    everything = isolation is Isolation.READ_UNCOMMITTED
    assert len(seen[0]) == BATCH * (14 if everything else 7)
    # A marker follows each transaction, so the next one starts one offset later.
    sequences = [sequence for partition, _, sequence in seen[0] if partition == 0]
    aborted = [sequence for sequence in sequences if sequence // BATCH % 2 == 0]
    assert bool(aborted) is everything


@pytest.mark.slow
@pytest.mark.parametrize("isolation", list(Isolation))
def test_what_the_own_reader_stored_agrees_with_the_connector(
    spark, cluster, ends, tmp_path: Path, isolation: Isolation
) -> None:
    two_readers.fetch(
        tmp_path,
        bootstrap_servers=cluster.bootstrap_servers,
        ends=ends,
        options={},
        isolation=isolation,
        headers=False,
    )
    own = two_readers.fetched(spark, tmp_path, run_id=RUN_ID)
    readings = {
        Reader.CONNECTOR.value: read(spark, cluster, ends, Reader.CONNECTOR, isolation),
        Reader.PYTHON.value: own,
    }
    assert disagreements(readings) is None
    assert own.count() == BATCH * (14 if isolation is Isolation.READ_UNCOMMITTED else 7)
    readings[Reader.PYTHON] = own.where("not (partition = 1 and offset = 7)")
    different = disagreements(readings)
    assert different is not None
    assert different.count() == 1


@pytest.mark.slow
def test_headers_are_read_on_request(spark, cluster, ends) -> None:
    for reader in Reader:
        frame = read_records(
            spark,
            bootstrap_servers=cluster.bootstrap_servers,
            ends=ends,
            options={"includeHeaders": "true"},
            reader=reader,
        )
        row = frame.where("partition = 0 and offset = 3").first()
        assert [(h["key"], h["value"] and bytes(h["value"])) for h in row["headers"]] == [
            ("name", b"3"),
            ("empty", None),
        ]


@pytest.mark.slow
@pytest.mark.parametrize("reader", list(Reader))
@pytest.mark.parametrize("isolation", list(Isolation))
def test_markers_and_aborted_records_at_the_end_are_not_gaps(
    spark, cluster, ends, tmp_path: Path, reader: Reader, isolation: Isolation
) -> None:
    taken = final_log.take_final_log(
        spark,
        run_id=RUN_ID,
        bootstrap_servers=cluster.bootstrap_servers,
        ends=ends,
        run_dir=tmp_path,
        options={},
        reader=reader,
        isolation=isolation,
    )
    assert [(end.complete, end.reason) for end in taken.ends] == [(True, None)] * 3


def test_a_log_that_ends_early_is_incomplete(
    spark, cluster, ends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are no records at the ends, so records may be missing."""
    monkeypatch.setattr(kafka_source, "_SHORT_S", 0.5)
    beyond = [dataclasses.replace(end, end_offset=end.end_offset + 5) for end in ends]
    log = read(spark, cluster, beyond, Reader.PYTHON, Isolation.READ_UNCOMMITTED)
    taken = final_log.write_final_log(log, run_id=RUN_ID, ends=beyond, run_dir=tmp_path)
    assert [end.complete for end in taken.ends] == [False] * 3
    assert taken.ends[2].reason == f"read up to {ends[2].end_offset + 1} of {beyond[2].end_offset}"


@pytest.mark.slow
def test_a_run_is_read_twice_and_says_by_whom(spark, cluster, ends, tmp_path: Path) -> None:
    run: Any = SimpleNamespace(run_dir=tmp_path, unobserved=[])
    take_final_log(run, bootstrap_servers=cluster.bootstrap_servers, ends=ends)
    assert run.readers == ["kafka", "ackproof-kafka"]
    assert not table_rows(tmp_path, "disagreements")
    assert pq.read_table(tmp_path / LOCATION["final_log"]).num_rows == 14 * BATCH


@pytest.mark.slow
def test_without_the_connector_the_own_reader_is_used(
    spark, cluster, ends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = final_log.take_final_log

    def no_connector(*args, reader: Reader = Reader.CONNECTOR, **rest):
        if reader is Reader.CONNECTOR:
            raise ConnectorMissing("gone")
        return take(*args, reader=reader, **rest)

    monkeypatch.setattr(final_log, "take_final_log", no_connector)
    run: Any = SimpleNamespace(run_dir=tmp_path, unobserved=[])
    take_final_log(run, bootstrap_servers=cluster.bootstrap_servers, ends=ends)
    assert run.readers == ["ackproof-kafka"]
    assert pq.read_table(tmp_path / LOCATION["final_log"]).num_rows == 14 * BATCH


@pytest.mark.parametrize(
    "who", [Reader.CONNECTOR, pytest.param(Reader.PYTHON, marks=pytest.mark.slow)]
)
def test_a_record_that_one_reader_drops_is_found(
    spark, cluster, ends, tmp_path: Path, who: Reader
) -> None:
    readings = {
        reader.value: read(spark, cluster, ends, reader, Isolation.READ_UNCOMMITTED)
        for reader in Reader
    }
    readings[who] = readings[who].where("not (partition = 1 and offset = 7)")
    store_disagreements(readings, run_dir=tmp_path)
    (row,) = table_rows(tmp_path, "disagreements")
    assert (row["topic"], row["partition"], row["offset"], row["sequence"]) == (TOPIC, 1, 7, 7)
    assert row["reader"] == next(reader for reader in Reader if reader is not who)


def test_brokers_without_an_answer_are_not_an_empty_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_source, "_SILENCE_S", 1.0)
    reader = kafka_source.KafkaReader(
        {
            "kafka.bootstrap.servers": "127.0.0.1:1",
            "startingOffsets": '{"t": {"0": 0}}',
            "endingOffsets": '{"t": {"0": 5}}',
        }
    )
    (part,) = reader.partitions()
    with pytest.raises(ConnectionError, match="returned nothing of t-0 from offset 0 for 1 s"):
        list(reader.read(part))


@pytest.mark.slow
@pytest.mark.parametrize("reader", list(Reader))
def test_the_job_reads_committed_records(
    spark, cluster, ends, tmp_path: Path, capsys: pytest.CaptureFixture[str], reader: Reader
) -> None:
    asked = {TOPIC: {str(end.partition): [0, end.end_offset] for end in ends}}
    code = job.main(
        [
            *("final-log", "--bootstrap-servers", cluster.bootstrap_servers, "--run-id", RUN_ID),
            *("--ends", json.dumps(asked), "--output", str(tmp_path), "--reader", reader.value),
            *("--isolation", "read_committed", "--option", "minPartitions=4"),
        ]
    )
    # The end may have no record: a marker, or a lost record, may follow the last one.
    printed = json.loads(capsys.readouterr().out)
    assert (code, printed["records"]) == (0, 7 * BATCH)
    assert set(printed["incomplete"]) == {f"{TOPIC}-0", f"{TOPIC}-1"}
    assert pq.read_table(tmp_path / LOCATION["final_log"]).num_rows == 7 * BATCH
    assert pq.read_table(tmp_path / LOCATION["partition_ends"]).num_rows == 3
