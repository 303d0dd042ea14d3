"""The checks of transactions and consumers: each anomaly, and similar cases that are none.

Each case is a topic of one run, with its own producers, consumers and group. The run is compared
once.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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
#: Each case has fewer producers and consumers.
APART = 10


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


class Run:
    """Sends of one producer to its topic, sequence by sequence, each readable at its own offset."""

    def __init__(self, number: int, outcomes: str, *, readable: set[int] | None) -> None:
        """`outcomes` has a letter a send: a(cked), x (aborted), u(nknown)."""
        words = {"a": "acked", "x": "aborted", "u": "unknown"}
        self.topic, self.first = f"t{number}", APART * number
        self.rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        if readable is None:
            readable = {sequence for sequence, letter in enumerate(outcomes) if letter == "a"}
        for sequence, letter in enumerate(outcomes):
            times = {"sent_at": at(sequence), "resolved_at": at(sequence + 0.5)}
            offset = sequence if letter == "a" else None
            self.add("ledger", sequence, outcome=words[letter], offset=offset, **times)
        for sequence in sorted(readable):
            self.add("final_log", sequence, written_at=at(sequence), state="intact", size=100)
        self.add("partition_ends", begin_offset=0, end_offset=len(outcomes), complete=True)

    def add(
        self, table: str, sequence: int | None = None, *, consumer: int = 0, **columns: Any
    ) -> None:
        """Add a row, with the columns that its table has of its send and its consumer."""
        self.rows[table].append(
            {
                "topic": self.topic,
                "partition": 0,
                "offset": sequence,
                "producer": None if sequence is None else self.first,
                "sequence": sequence,
                "consumer": self.first + consumer,
                "group": f"billing-{self.topic}",
                "isolation_level": "read_committed",
                **columns,
            }
        )

    def poll(self, poll: int, *sequences: int, consumer: int = 0) -> None:
        for number, sequence in enumerate(sequences):
            when = {"poll": poll, "number": number, "read_at": at(100 + poll)}
            self.add("reads", sequence, consumer=consumer, **when)

    def process(self, *sequences: int, consumer: int = 0, at_s: float = 200) -> None:
        for sequence in sequences:
            self.add("effects", sequence, consumer=consumer, processed_at=at(at_s))

    def event(self, event: str, *, poll: int) -> None:
        moment = at(len(self.rows["consumer_events"]))
        self.add("consumer_events", at=moment, poll=poll, event=event)

    def transaction(
        self, number: int, first: int, end: int, *, producer: int = 0, **columns: Any
    ) -> None:
        sends = {"first_sequence": first, "end_sequence": end, "outcome": "committed"}
        times = {"initialized_at": at(0), "ended_at": at(end)}
        whose = {"producer": self.first + producer, "transactional_id": f"id-{self.topic}"}
        self.add("transactions", transaction=number, **{**whose, **sends, **times, **columns})

    def add_partition(self) -> None:
        named = {"fault": "add_partitions", "target": "all", "nodes": [1], "parameters": "{}"}
        facts = json.dumps({"added": {self.topic: [0]}})
        whole = {**named, "trigger": "", "injected_at": at(0), "evidence": ""}
        self.add("fault_windows", window=0, verified=True, facts=facts, **whole)

    def reset(self, before: int | None, after: int | None, *, at_s: float, ok: bool = True) -> None:
        named = {"fault": "reset_offsets", "target": "all", "nodes": [1], "parameters": "{}"}
        place = {"group": f"billing-{self.topic}", "topic": self.topic}
        facts = json.dumps({"reset": {**place, "offsets": {"0": [before, after]}}})
        whole = {**named, "trigger": "", "injected_at": at(0), "evidence": ""}
        times = {"verified_at": at(at_s), "verified": ok}
        self.add("fault_windows", window=0, facts=facts, **times, **whole)

    def hangs(self, offset: int) -> None:
        whose = {"producer_id": 7, "producer_epoch": 3, "coordinator_epoch": 0}
        times = {"last_at": at(offset), "found_at": at(300), "aborted_at": at(301)}
        self.add("hanging_transactions", start_offset=offset, **whose, **times)

    def probe_read(self, sequence: int | None, *, offset: int) -> None:
        times = {"at": at(99), "answered_at": at(100)}
        self.add("probe", sequence, offset=offset, action="read", ok=True, **times)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The events of a run, and the expected anomalies with their sequences."""

    outcomes: str
    readable: set[int] | None
    happens: Callable[[Run], None]
    expected: list[tuple[Anomaly, int | None]]


CASES: dict[str, Case] = {}


def case(
    outcomes: str, *expected: tuple[Anomaly, int | None], readable: set[int] | None = None
) -> Callable[[Callable[[Run], None]], None]:
    def add(happens: Callable[[Run], None]) -> None:
        CASES[happens.__name__] = Case(
            outcomes=outcomes, readable=readable, happens=happens, expected=list(expected)
        )

    return add


@case("axxua", (Anomaly.ABORTED_READ, 2), readable={0, 2, 4})
def an_absent_aborted_send_is_not_lost_and_a_visible_one_is_an_aborted_read(run: Run) -> None:
    run.transaction(0, 0, 1)


@case("axa", (Anomaly.ABORTED_READ, 1), (Anomaly.READ_THEN_GONE, 1))
def an_aborted_record_that_a_consumer_read_is_an_aborted_read(run: Run) -> None:
    run.transaction(0, 0, 1)
    run.poll(0, 0, 1, 2)
    run.process(0, 1, 2)


@case("axa", (Anomaly.ABORTED_READ, 1), (Anomaly.READ_THEN_GONE, 1))
def an_aborted_record_that_a_share_group_got_is_an_aborted_read(run: Run) -> None:
    run.transaction(0, 0, 1)
    for sequence in range(3):
        when = {"poll": 0, "number": sequence, "read_at": at(100)}
        run.add("acquisitions", sequence, delivery_count=1, **when)
        run.process(sequence)


@case("aaaaa", (Anomaly.REPROCESSED, 1), (Anomaly.UNPROCESSED, 2))
def skipped_records_are_unprocessed_and_repeated_ones_reprocessed(run: Run) -> None:
    run.poll(0, 0, 1, 2)
    run.process(0, 1)
    run.poll(0, 3, 4, consumer=1)
    run.process(1, 3, 4, consumer=1)


@case("aaaa")
def records_before_a_groups_first_poll_are_not_unprocessed(run: Run) -> None:
    run.poll(0, 2, 3)
    run.process(2, 3)


@case("aaaa", (Anomaly.UNPROCESSED, 0), (Anomaly.UNPROCESSED, 1))
def records_of_an_added_partition_are_unprocessed_before_a_groups_first_poll_too(run: Run) -> None:
    run.poll(0, 2, 3)
    run.process(2, 3)
    run.add_partition()


@case("aaaa", (Anomaly.REPLAYED, 1), (Anomaly.REPLAYED, 2), (Anomaly.REPROCESSED, 2))
def after_a_reset_each_record_from_the_new_offset_on_may_be_processed_once_more(run: Run) -> None:
    run.poll(0, 0, 1, 2)
    run.process(0, 1, 2)
    run.reset(3, 1, at_s=300)
    run.poll(300, 1, 2, 3, consumer=1)
    run.process(1, 2, 2, 3, consumer=1, at_s=400)


@case("aaa", (Anomaly.REPROCESSED, 0), (Anomaly.REPROCESSED, 1))
def what_no_reset_asks_for_is_reprocessed(run: Run) -> None:
    """Offset 0 is before the new one; 1 was repeated before the reset; and a reset failed."""
    run.poll(0, 0, 1, 2)
    run.process(0, 1, 1, 2)
    run.reset(3, 0, at_s=250, ok=False)
    run.reset(3, 1, at_s=300)
    run.poll(300, 0, consumer=1)
    run.process(0, consumer=1, at_s=400)


@case("aaaa", (Anomaly.UNPROCESSED, 1), (Anomaly.UNPROCESSED, 2))
def what_a_reset_passes_over_is_unprocessed(run: Run) -> None:
    run.poll(0, 0)
    run.process(0)
    run.reset(1, 3, at_s=300)
    run.poll(300, 3, consumer=1)
    run.process(3, consumer=1, at_s=400)


@case("aaaaaa", (Anomaly.NONMONOTONIC_POLL, 2), (Anomaly.POLL_SKIP, 3))
def polls_that_do_not_continue_where_the_last_one_ended_are_reported(run: Run) -> None:
    run.event("assigned", poll=0)
    for poll, sequences in enumerate([(0, 1), (3,), (2, 3), (4, 5)]):
        run.poll(poll, *sequences)
    run.process(*range(6))


@case("aaaaaa")
def after_a_rebalance_a_poll_may_begin_anywhere(run: Run) -> None:
    run.event("assigned", poll=0)
    run.poll(0, 0, 1)
    run.event("revoked", poll=1)
    run.event("assigned", poll=1)
    run.poll(1, 4, 5)
    run.event("lost", poll=2)
    run.event("assigned", poll=2)
    run.poll(2, 2, 3)
    run.process(*range(6))


@case("aaaa")
def a_consumer_may_poll_rewound_records_again(run: Run) -> None:
    run.event("assigned", poll=0)
    run.poll(0, 0, 1)
    run.event("rewound", poll=1)
    run.poll(1, 0, 1)
    run.poll(2, 2, 3)
    run.process(*range(4))


@case("aaaa", (Anomaly.ZOMBIE_COMMIT, 2), (Anomaly.ZOMBIE_COMMIT, 3))
def a_commit_after_the_successor_began_is_a_zombie_commit(run: Run) -> None:
    run.transaction(0, 0, 2, ended_at=at(9))
    run.transaction(1, 2, 4, ended_at=at(11))
    run.transaction(0, 0, 0, producer=1, predecessor=run.first, initialized_at=at(10))


@case(
    "aaau",
    (Anomaly.LOST, 2),
    (Anomaly.READ_THEN_GONE, 2),
    (Anomaly.READ_THEN_GONE, 3),
    readable={0, 1},
)
def a_record_that_a_consumer_read_and_the_log_lacks_is_reported_beside_the_loss(run: Run) -> None:
    run.poll(0, 0, 1, 2, 3)
    run.process(0, 1, 2, 3)


@case("aau", (Anomaly.READ_THEN_GONE, 2), readable={0, 1})
def a_record_that_only_the_probe_read_is_reported_if_it_is_gone(run: Run) -> None:
    run.probe_read(1, offset=1)
    run.probe_read(2, offset=2)
    run.probe_read(None, offset=3)


@case("aaxuu", (Anomaly.LOST, 1), (Anomaly.READ_THEN_GONE, 1), readable={0})
def a_transactions_record_that_only_the_probe_read_must_stay_if_committed(run: Run) -> None:
    run.transaction(0, 0, 5)
    for sequence in range(5):
        run.probe_read(sequence, offset=sequence)


@case("aax", (Anomaly.HANGING_TRANSACTION, None))
def a_transaction_without_an_end_hangs_and_its_aborted_send_is_not_lost(run: Run) -> None:
    run.transaction(0, 0, 2)
    run.transaction(1, 2, 3, outcome="aborted")
    run.hangs(2)


@case("aax")
def an_aborted_transaction_that_was_ended_does_not_hang(run: Run) -> None:
    run.transaction(0, 0, 2)
    run.transaction(1, 2, 3, outcome="aborted")


@pytest.fixture(scope="module")
def found(spark, tmp_path_factory) -> dict[str, list[tuple[str, int, str]]]:
    directory = tmp_path_factory.mktemp("run")
    runs = {}
    for number, (name, made) in enumerate(CASES.items()):
        runs[name] = Run(number, made.outcomes, readable=made.readable)
        made.happens(runs[name])
    for table, location in LOCATION.items():
        rows = [row for run in runs.values() for row in run.rows[table]]
        if rows or table == "fault_windows":
            path = directory / location
            path = path if path.suffix else path / "part-0.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_table(path, getattr(tables, table.upper()), RUN_ID, rows)
    compare(spark, directory)
    rows = spark.read.parquet(str(directory / LOCATION["anomalies"])).collect()
    return {
        name: sorted(
            (row["anomaly"], row["sequence"], row["found"])
            for row in rows
            if row["topic"] == run.topic
        )
        for name, run in runs.items()
    }


@pytest.mark.parametrize("name", CASES)
def test_anomalies_of_transactions_and_consumers(name, found):
    assert [row[:2] for row in found[name]] == CASES[name].expected


def test_a_reset_is_named_as_the_cause(found):
    reset = ": an administrator had changed its offset from 1 to 3"
    caused = found["what_a_reset_passes_over_is_unprocessed"]
    assert all(text.endswith(reset) for _, _, text in caused)
    others = [text for name, rows in found.items() if rows is not caused for _, _, text in rows]
    assert not any("administrator had changed" in text for text in others)
