"""A pipeline whose transaction is refused: it is aborted, and its records are polled again."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, Message, Producer

from ackproof.clients import forwarding
from ackproof.clients.forwarding import KEY
from ackproof.clients.process import ConsumerProcess
from ackproof.ledger import conversion
from ackproof.scenario.types import Commit
from ackproof_spark.record import encoder
from ackproof_spark.tables import LOCATION
from support.client_specs import consumer_spec
from unit.harness.clients.mock_cluster import TXN_OFFSET_COMMIT, mock_cluster

SENDS = 40
WITHIN = 120.0


@pytest.fixture
def rows(tmp_path: Path):
    """Run a pipeline over a partition of `SENDS` records; return what it recorded, by table."""

    def run(*refusals: int) -> dict[str, list[dict]]:
        with mock_cluster() as cluster:
            producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
            encode = encoder(run_id="run-1", producer=0, size=40)
            for sequence in range(SENDS):
                producer.produce("orders", encode(sequence), partition=0)
            assert producer.flush(WITHIN) == 0
            cluster.answer(TXN_OFFSET_COMMIT, *refusals)
            (tmp_path / "ends.json").write_text(json.dumps({"0": SENDS}))
            process = ConsumerProcess(
                consumer_spec(
                    tmp_path,
                    bootstrap_servers=cluster.bootstrap,
                    partitions=[0],
                    commit=Commit.TRANSACTION,
                    into={"invoices": 1},
                    transactional_id="billing-0",
                    settings={"auto.offset.reset": "earliest"},
                )
            )
            process.start()
            process.stop()
            assert process.wait(WITHIN) == 0, process.error
            assert process.progress().acked == SENDS
            conversion.close(tmp_path)
        tables = ("reads", "consumer_events")
        return {table: pq.read_table(tmp_path / LOCATION[table]).to_pylist() for table in tables}

    return run


def test_without_a_refusal_every_record_is_polled_once(rows):
    tables = rows()
    assert [row["offset"] for row in tables["reads"]] == list(range(SENDS))
    assert {row["event"] for row in tables["consumer_events"]}.isdisjoint(
        {"rewound", "commit-failed"}
    )


def test_records_of_a_failed_transaction_are_polled_again(rows):
    tables = rows(KafkaError.ILLEGAL_GENERATION)
    events = [row["event"] for row in tables["consumer_events"]]
    assert events.count("commit-failed") == events.count("rewound") == 1
    (rewound,) = [row for row in tables["consumer_events"] if row["event"] == "rewound"]
    offsets = [row["offset"] for row in tables["reads"]]
    again = offsets.index(rewound["offset"], offsets.index(rewound["offset"]) + 1)
    assert rewound["offset"] == 0
    assert offsets[again:] == list(range(SENDS))


RUN = "run-1"
SEND = encoder(run_id=RUN, producer=4, size=40)


def made(topic: str, sequence: int, *, consumer: int = 0, value: bytes | None = None):
    key = KEY.pack(sequence % 2, 100 + sequence, consumer)
    content = SEND(sequence) if value is None else value
    return Message(topic, value=content, key=key, timestamp=(1, 1000 + sequence))


@pytest.fixture
def taken(tmp_path, monkeypatch):
    """Return what `take` makes of records in the topics."""

    def take(*records, topics=("invoices", "audit")):
        run_dir = tmp_path / "some-folder"
        monkeypatch.setattr(forwarding, "messages_below", lambda places, settings: iter(records))
        forwarding.take(
            run_dir, run_id=RUN, source="orders", groups={"g": topics}, ends={}, settings={}
        )
        conversion.close(run_dir)
        folder = run_dir / "effects"
        return pq.read_table(folder).to_pylist() if folder.exists() else []

    return take


def test_an_effect_names_its_source_record_and_its_consumer(taken):
    (row,) = taken(made("invoices", 7, consumer=3), topics=["invoices"])
    assert (row["topic"], row["partition"], row["offset"]) == ("orders", 1, 107)
    assert (row["producer"], row["sequence"]) == (4, 7)
    assert (row["consumer"], row["group"], row["run_id"]) == (3, "g", RUN)
    assert row["processed_at"].timestamp() == pytest.approx(1.007)


@pytest.mark.parametrize(
    ("invoices", "audit", "times"),
    [([7], [7], 1), ([7, 7], [7], 2), ([7], [7, 7], 2), ([7], [], 0), ([], [7, 7], 0)],
)
def test_a_record_is_processed_when_it_is_in_all_topics_and_as_often_as_in_any(
    taken, invoices, audit, times
):
    records = [made("invoices", one) for one in invoices] + [made("audit", one) for one in audit]
    assert [row["sequence"] for row in taken(*records)] == [7] * times


def test_records_of_another_run_are_no_effects(taken):
    other = encoder(run_id="run-2", producer=4, size=40)(7)
    records = [
        made("invoices", 7, value=other),
        made("invoices", 7, value=b"end of run"),
        Message("invoices", value=SEND(7), key=b"", timestamp=(1, 1)),
    ]
    assert taken(*records, topics=["invoices"]) == []
