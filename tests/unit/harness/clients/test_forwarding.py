"""A pipeline whose transaction is refused: it is aborted, and its records are polled again."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, Producer

from ackproof.clients.process import ConsumerProcess
from ackproof.clients.specs import ConsumerSpec
from ackproof.ledger import arrow_stream, conversion, processed_records
from ackproof.scenario.types import Commit
from ackproof_spark.record import encoder
from ackproof_spark.tables import LOCATION
from unit.harness.clients.mock_cluster import TXN_OFFSET_COMMIT, mock_cluster

SENDS = 40
WITHIN = 60.0


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
                ConsumerSpec(
                    run_id="run-1",
                    number=0,
                    group="billing",
                    topic="orders",
                    bootstrap_servers=cluster.bootstrap,
                    progress=tmp_path / "consumer-0.page",
                    reads=arrow_stream.stream_path(tmp_path, "reads", "consumer-0"),
                    events=arrow_stream.stream_path(tmp_path, "consumer_events", "consumer-0"),
                    effects=processed_records.path_of(tmp_path, "consumer-0"),
                    ends=tmp_path / "ends.json",
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
    found = rows()
    assert [row["offset"] for row in found["reads"]] == list(range(SENDS))
    assert {row["event"] for row in found["consumer_events"]}.isdisjoint(
        {"rewound", "commit-failed"}
    )


def test_records_of_a_failed_transaction_are_polled_again(rows):
    found = rows(KafkaError.ILLEGAL_GENERATION)
    events = [row["event"] for row in found["consumer_events"]]
    assert events.count("commit-failed") == events.count("rewound") == 1
    (rewound,) = [row for row in found["consumer_events"] if row["event"] == "rewound"]
    offsets = [row["offset"] for row in found["reads"]]
    again = offsets.index(rewound["offset"], offsets.index(rewound["offset"]) + 1)
    assert rewound["offset"] == 0
    assert offsets[again:] == list(range(SENDS))
