"""What is told of transactions and consumers: each anomaly, and right beside it what is none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ackproof.runs.directory import write_table
from ackproof_spark import tables
from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.comparison import compare
from ackproof_spark.tables import LOCATION
from spark_histories import RUN_ID

pytestmark = pytest.mark.spark

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
GROUP = "billing"


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


class Run:
    """Sends of producer 0 to orders-0, sequence by sequence, each readable at its own offset."""

    def __init__(self, directory: Path, outcomes: str, *, readable: set[int] | None = None) -> None:
        """`outcomes` has a letter a send: a(cked), x (aborted), u(nknown)."""
        words = {"a": "acked", "x": "aborted", "u": "unknown"}
        self.directory = directory
        self.reads: list[dict[str, Any]] = []
        self.effects: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.transactions: list[dict[str, Any]] = []
        self.probe: list[dict[str, Any]] = []
        sends = [
            {
                **self.name(sequence),
                "outcome": words[letter],
                "offset": sequence if letter == "a" else None,
                "sent_at": at(sequence),
                "resolved_at": at(sequence + 0.5),
            }
            for sequence, letter in enumerate(outcomes)
        ]
        acked = {sequence for sequence, letter in enumerate(outcomes) if letter == "a"}
        log = [
            {
                **self.name(sequence),
                "offset": sequence,
                "written_at": at(sequence),
                "state": "intact",
                "size": 100,
            }
            for sequence in sorted(acked if readable is None else readable)
        ]
        end = {"topic": "orders", "partition": 0, "begin_offset": 0, "end_offset": len(outcomes)}
        self.write("ledger/producer-0.parquet", tables.LEDGER, sends)
        self.write("final_log/part-0.parquet", tables.FINAL_LOG, log)
        self.write("partition_ends.parquet", tables.PARTITION_ENDS, [{**end, "complete": True}])
        self.write("fault_windows.parquet", tables.FAULT_WINDOWS, [])

    def write(self, place: str, schema: Any, rows: list[dict[str, Any]]) -> None:
        path = self.directory / place
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(path, schema, RUN_ID, rows)

    def name(self, sequence: int) -> dict[str, Any]:
        return {"topic": "orders", "partition": 0, "producer": 0, "sequence": sequence}

    def poll(self, poll: int, *sequences: int, consumer: int = 0) -> None:
        self.reads += [
            {
                "consumer": consumer,
                "group": GROUP,
                "isolation_level": "read_committed",
                "poll": poll,
                "number": number,
                **self.name(sequence),
                "offset": sequence,
                "read_at": at(100 + poll),
            }
            for number, sequence in enumerate(sequences)
        ]

    def process(self, *sequences: int, consumer: int = 0) -> None:
        self.effects += [
            {
                "consumer": consumer,
                "group": GROUP,
                **self.name(sequence),
                "offset": sequence,
                "processed_at": at(200),
            }
            for sequence in sequences
        ]

    def event(self, event: str, *, poll: int, consumer: int = 0) -> None:
        self.events.append(
            {
                "consumer": consumer,
                "group": GROUP,
                "at": at(len(self.events)),
                "poll": poll,
                "event": event,
                "topic": "orders",
                "partition": 0,
            }
        )

    def transaction(self, number: int, first: int, end: int, **fields: Any) -> None:
        self.transactions.append(
            {
                "producer": 0,
                "transactional_id": "id",
                "transaction": number,
                "first_sequence": first,
                "end_sequence": end,
                "outcome": "committed",
                "initialized_at": at(0),
                "ended_at": at(end),
                **fields,
            }
        )

    def probe_read(self, sequence: int | None, *, offset: int) -> None:
        self.probe.append(
            {
                "topic": "orders",
                "partition": 0,
                "action": "read",
                "at": at(99),
                "answered_at": at(100),
                "ok": True,
                "offset": offset,
                "producer": None if sequence is None else 0,
                "sequence": sequence,
            }
        )

    def found(self, spark: Any) -> list[tuple[str, int]]:
        for table in ("reads", "effects", "consumer_events", "transactions", "probe"):
            rows = self.events if table == "consumer_events" else getattr(self, table)
            if rows:
                schema = getattr(tables, table.upper())
                self.write(f"{LOCATION[table]}/one.parquet", schema, rows)
        compare(spark, self.directory)
        stored = spark.read.parquet(str(self.directory / LOCATION["anomalies"])).collect()
        return sorted((row["anomaly"], row["sequence"]) for row in stored)


def test_aborted_sends_are_neither_lost_where_absent_nor_allowed_where_visible(spark, tmp_path):
    run = Run(tmp_path, "axxua", readable={0, 2, 4})
    run.transaction(0, 0, 1)
    assert run.found(spark) == [(Anomaly.ABORTED_READ, 2)]


def test_an_aborted_record_that_a_consumer_was_given_is_an_aborted_read(spark, tmp_path):
    run = Run(tmp_path, "axa")
    run.transaction(0, 0, 1)
    run.poll(0, 0, 1, 2)
    run.process(0, 1, 2)
    assert (Anomaly.ABORTED_READ, 1) in run.found(spark)


def test_what_a_group_skipped_is_unprocessed_and_what_it_did_again_reprocessed(spark, tmp_path):
    run = Run(tmp_path, "aaaaa")
    run.poll(0, 0, 1, 2)
    run.process(0, 1)
    run.poll(0, 3, 4, consumer=1)
    run.process(1, 3, 4, consumer=1)
    assert run.found(spark) == [(Anomaly.REPROCESSED, 1), (Anomaly.UNPROCESSED, 2)]


def test_what_stood_before_a_groups_first_poll_was_not_its_to_process(spark, tmp_path):
    run = Run(tmp_path, "aaaa")
    run.poll(0, 2, 3)
    run.process(2, 3)
    assert run.found(spark) == []


def test_polls_that_do_not_go_on_where_they_were_are_told(spark, tmp_path):
    run = Run(tmp_path, "aaaaaa")
    run.event("assigned", poll=0)
    for poll, sequences in enumerate([(0, 1), (3,), (2, 3), (4, 5)]):
        run.poll(poll, *sequences)
    run.process(*range(6))
    assert run.found(spark) == [(Anomaly.NONMONOTONIC_POLL, 2), (Anomaly.POLL_SKIP, 3)]


def test_after_a_rebalance_a_poll_may_begin_anywhere(spark, tmp_path):
    run = Run(tmp_path, "aaaaaa")
    run.event("assigned", poll=0)
    run.poll(0, 0, 1)
    run.event("revoked", poll=1)
    run.event("assigned", poll=1)
    run.poll(1, 4, 5)
    run.event("lost", poll=2)
    run.event("assigned", poll=2)
    run.poll(2, 2, 3)
    run.process(*range(6))
    assert run.found(spark) == []


def test_what_a_consumer_rewound_it_may_poll_again(spark, tmp_path):
    run = Run(tmp_path, "aaaa")
    run.event("assigned", poll=0)
    run.poll(0, 0, 1)
    run.event("rewound", poll=1)
    run.poll(1, 0, 1)
    run.poll(2, 2, 3)
    run.process(*range(4))
    assert run.found(spark) == []


def test_what_a_producer_commits_after_its_successor_began_is_a_zombies(spark, tmp_path):
    run = Run(tmp_path, "aaaa")
    run.transaction(0, 0, 2, ended_at=at(9))
    run.transaction(1, 2, 4, ended_at=at(11))
    run.transaction(0, 0, 0, producer=1, predecessor=0, initialized_at=at(10))
    assert run.found(spark) == [(Anomaly.ZOMBIE_COMMIT, 2), (Anomaly.ZOMBIE_COMMIT, 3)]


def test_what_a_consumer_read_and_the_log_lacks_is_told_beside_the_loss(spark, tmp_path):
    run = Run(tmp_path, "aaau", readable={0, 1})
    run.poll(0, 0, 1, 2, 3)
    run.process(0, 1, 2, 3)
    assert run.found(spark) == [
        (Anomaly.LOST, 2),
        (Anomaly.READ_THEN_GONE, 2),
        (Anomaly.READ_THEN_GONE, 3),
    ]


def test_the_probe_alone_sees_what_is_gone(spark, tmp_path):
    run = Run(tmp_path, "aau", readable={0, 1})
    run.probe_read(1, offset=1)
    run.probe_read(2, offset=2)
    run.probe_read(None, offset=3)
    assert run.found(spark) == [(Anomaly.READ_THEN_GONE, 2)]
