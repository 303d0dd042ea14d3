"""The producer's ledger matches the log, of every client, on the mock cluster and on real brokers.

The mock cluster is reached over TCP, like a real one. If both pass, fast tests may use the mock.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import Consumer, TopicPartition

from ackproof.clients.process import ProducerProcess
from ackproof.clients.specs import ProducerSpec
from ackproof.ledger.producer_ledger import recover
from ackproof_spark.record import decode, run_token
from conformance.arms import JAVA, LATER_JAVA, MOCK, OTHER, PARTITIONS, REAL, WITHIN
from support.client_specs import producer_spec
from waiting import until


@pytest.fixture
def spec(
    tmp_path: Path, bootstrap: str, topic: str, java: str | None, librdkafka: str | None
) -> Callable[..., ProducerSpec]:
    return lambda **fields: producer_spec(
        tmp_path,
        5,
        run_id=f"run-of-{topic}",
        topic=topic,
        bootstrap_servers=bootstrap,
        java=java,
        librdkafka=librdkafka,
        **fields,
    )


def recorded(process: ProducerProcess) -> pa.Table:
    """Return the ledger of a producer that has ended."""
    assert process.spec.ledger is not None
    return recover(process.spec.ledger)


def sequence_of(value: bytes) -> int:
    """Return the sequence number in a record that a producer of a run wrote."""
    written = decode(value)
    assert written is not None
    return written[2]


def read_log(bootstrap: str, topic: str) -> dict[tuple[int, int], bytes]:
    """Return every record of the topic by partition and offset."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True}
    )
    partitions = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
    consumer.assign(partitions)
    log: dict[tuple[int, int], bytes] = {}
    at_end: set[int] = set()
    while len(at_end) < PARTITIONS:
        message = consumer.poll(WITHIN)
        assert message is not None, f"read {len(log)} records, then nothing"
        if message.error():
            at_end.add(message.partition())
        else:
            log[message.partition(), message.offset()] = message.value()
    consumer.close()
    return log


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"acks": "all", "enable.idempotence": True}, id="idempotent"),
        pytest.param({"acks": 1}, id="acks-1", marks=pytest.mark.slow),
        pytest.param({"acks": "all", "linger.ms": 0}, id="acks-all", marks=pytest.mark.slow),
    ],
)
def test_every_acked_row_is_at_its_offset_in_the_log(spec, bootstrap, topic, settings):
    process = ProducerProcess(spec(records=5_000, settings=settings, size=100))
    process.start()
    assert process.wait(WITHIN) == 0, process.error
    table = recorded(process)
    assert table["outcome"].to_pylist() == ["acked"] * 5_000
    log = read_log(bootstrap, topic)
    token = run_token(process.spec.run_id)
    acked = {
        (row["partition"], row["offset"]): (token, row["producer"], row["sequence"])
        for row in table.select(["partition", "offset", "producer", "sequence"]).to_pylist()
    }
    assert {place: decode(value) for place, value in log.items()} == acked
    assert {len(value) for value in log.values()} == {100}


@pytest.mark.parametrize("arm", [MOCK, REAL, LATER_JAVA, OTHER], indirect=True)
def test_after_sigkill_every_record_in_the_log_is_a_send_of_the_ledger(spec, bootstrap, topic):
    process = ProducerProcess(spec(seconds=WITHIN))
    process.start()
    try:
        until(lambda: process.progress().acked >= 5_000)
    finally:
        process.kill()
    table = recorded(process)
    log = read_log(bootstrap, topic)
    written = [sequence_of(value) for value in log.values()]
    assert set(written) <= set(table["sequence"].to_pylist())
    acked = table.filter(pc.field("outcome") == "acked")
    for place in zip(
        *(acked[name].to_pylist() for name in ("partition", "offset", "sequence")), strict=True
    ):
        assert sequence_of(log[place[:2]]) == place[2]


@pytest.mark.slow
@pytest.mark.parametrize("arm", [JAVA], indirect=True)
def test_a_java_producer_reads_back_what_it_works_with(spec):
    process = ProducerProcess(spec(records=1, settings={"acks": "1", "retries": 7}))
    process.start()
    assert process.wait(WITHIN) == 0, process.error
    # Since 3.0 idempotence is on by default, and acks=1 switches it off without a word.
    found = json.loads(process.spec.in_force.read_text())
    assert found == {"acks": "1", "retries": 7, "enable.idempotence": False}
