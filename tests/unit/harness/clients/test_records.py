"""Where a producer's records go, and what they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Producer

from ackproof.clients.records import Records, in_turn, key, origin
from ackproof.clients.specs import ProducerSpec
from ackproof.errors import RunDirectoryError
from ackproof.ledger import producer_ledger
from ackproof.ledger.producer_ledger import LedgerWriter
from ackproof_spark.ledger_stream import Origin, growths_path
from ackproof_spark.record import decode, run_token
from support.client_specs import producer_spec


def spec(**fields) -> ProducerSpec:
    return producer_spec(Path("/run"), 4, **fields)


def test_a_key_goes_to_the_partition_of_librdkafkas_partitioner():
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    found: dict[bytes, int] = {}
    for number in range(50):
        producer.produce(
            "orders",
            b"",
            key(number),
            on_delivery=lambda _, m: found.update({m.key(): m.partition()}),
        )
    assert producer.flush(30) == 0
    assert [found[key(number)] for number in range(50)] == list(in_turn(spec(keys=50), 4))
    assert len(set(found.values())) == 4


def went(records: Records, first: int, stop: int) -> dict[int, int]:
    return {
        int(sequence): partition
        for partition, sequences in records.by_partition(first, stop)
        for sequence in sequences
    }


ALL = {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("fields", "used"),
    [({}, ALL), ({"partition": 3}, {3}), ({"keys": 7}, ALL), ({"partitions": 1}, {0})],
)
def test_the_ledger_has_the_partition_of_each_send(fields, used):
    made = spec(**fields)
    assert Origin.of(origin(made).schema()) == origin(made)
    sent = went(Records(made), 5, 1000)
    assert sorted(sent) == list(range(5, 1000))
    assert set(sent.values()) == used
    recorded = origin(made).partition_of(np.arange(5, 1000)).tolist()
    assert [sent[sequence] for sequence in range(5, 1000)] == recorded


@pytest.mark.parametrize("fields", [{}, {"keys": 7}, {"keys": 7, "java": "3.9.1"}])
def test_the_ledger_has_the_partition_of_each_send_after_the_topic_grew(tmp_path, fields):
    made = spec(partitions=1, later_partitions=(4, 6), ledger=tmp_path / "_p.arrows", **fields)
    ledger, records = LedgerWriter(made.ledger, origin(made)), Records(made)
    ledger.reserve(1000)
    sent: dict[int, int] = {}
    for first, stop, partitions in ((0, 100, 1), (100, 300, 4), (300, 900, 6)):
        if first:
            ledger.grow(first, partitions)
            records.use(partitions)
        sent |= went(records, first, stop)
    # The producer was killed: the sends up to 1000 are reserved, and unknown.
    rows = producer_ledger.recover(made.ledger)
    recorded = dict(zip(rows["sequence"].to_pylist(), rows["partition"].to_pylist(), strict=True))
    assert {sequence: recorded[sequence] for sequence in sent} == sent
    assert sorted(recorded) == list(range(1000))
    assert max(sent[sequence] for sequence in range(100)) == 0
    assert len(set(sent.values())) > 4


def test_an_incomplete_growth_is_ignored_and_a_wrong_one_reported(tmp_path):
    made = spec(partitions=1, later_partitions=(4,), ledger=tmp_path / "_p.arrows")
    ledger = LedgerWriter(made.ledger, origin(made))
    ledger.reserve(10)
    ledger.grow(5, 4)
    growths = growths_path(made.ledger)
    growths.write_text(growths.read_text() + "8 1")
    assert sorted(producer_ledger.recover(made.ledger)["partition"].to_pylist()) == sorted(
        [0] * 5 + [number % 4 for number in range(5, 10)]
    )
    growths.write_text("5 4\n3 4\n")
    with pytest.raises(RunDirectoryError, match="is not after the one before"):
        producer_ledger.recover(made.ledger)


@pytest.mark.parametrize("fields", [{"size": 32}, {"size": 40, "largest": 90, "seed": 2}])
def test_a_value_names_its_send_whatever_its_size(fields):
    messages = Records(spec(**fields)).messages(np.arange(500))
    values = [message["value"] for message in messages]
    assert [decode(value) for value in values] == [(run_token("run-1"), 4, n) for n in range(500)]
    sizes = {len(value) for value in values}
    assert sizes == ({32} if "largest" not in fields else set(range(40, 91)))


def test_the_seed_determines_the_sizes():
    def sizes(seed: int) -> list[int]:
        drawn = Records(spec(size=40, largest=400, seed=seed)).messages(np.arange(100))
        return [len(message["value"]) for message in drawn]

    assert sizes(1) == sizes(1) != sizes(2)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"ledger": None, "rate": 0.5, "seconds": 2.5, "parent": 17},
        {"window": 1, "largest": 1000, "seed": 3, "keys": 5},
        {"settings": {"acks": "all", "linger.ms": 5, "enable.idempotence": True}},
    ],
)
def test_json_round_trip(fields):
    made = spec(records=1, **fields)
    assert ProducerSpec.from_json(made.to_json()) == made


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"acks": "all"}, True),
        ({"acks": 1}, True),
        ({"acks": 0}, False),
        ({"acks": "0"}, False),
    ],
)
def test_acks_have_offsets_unless_acks_is_0(settings, expected):
    assert spec(settings=settings).acks_have_offsets is expected


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({}, 300),
        ({"delivery.timeout.ms": 20_000}, 20),
        ({"message.timeout.ms": "1500"}, 1.5),
        ({"delivery.timeout.ms": 0}, 300),
    ],
)
def test_the_delivery_timeout_is_read_by_either_name(settings, seconds):
    assert spec(settings=settings).delivery_timeout_s == seconds
