"""The tables of consumers, transactions and the probe are held against what else was recorded."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from ackproof.clients.shared_page import State
from ackproof.judgement.client_tables import contradictions
from ackproof.ledger import conversion
from ackproof.runs import directory as runs
from ackproof.scenario.loader import load
from ackproof_spark import tables
from ackproof_spark.tables import LEDGER, LOCATION, PROBE, PROBE_PRODUCERS
from spark_histories import RUN_ID, parse
from stored_runs import TOPIC, store

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    sends = [f"0/{n} to 0: acked at {n}" for n in range(10)]
    return store(tmp_path / "run", parse({"sends": sends, "ends": ["0: 0-10"]}))


def with_workload(run_dir: Path, **workload: Any) -> None:
    path = run_dir / "scenario.yaml"
    document = YAML(typ="safe").load(path)
    YAML(typ="safe").dump({**document, "workload": document["workload"] | workload}, path)


def page(run_dir: Path, client: str, state: State, sent: int, acked: int) -> None:
    path = run_dir / "clients" / f"{client}.progress"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(struct.pack("=5q", state, sent, acked, 0, 0).ljust(4096, b"\0"))


def write(run_dir: Path, table: str, name: str, rows: list[dict[str, Any]]) -> None:
    path = run_dir / LOCATION[table] / f"{name}.parquet"
    path.parent.mkdir(exist_ok=True)
    runs.write_table(path, getattr(tables, table.upper()), RUN_ID, rows)


def said(run_dir: Path) -> str:
    return "; ".join(contradictions(run_dir, load(run_dir / "scenario.yaml")[0].scenario))


def consume(run_dir: Path, reads: int, effects: int) -> None:
    record = {"consumer": 0, "group": "g", "topic": TOPIC, "partition": 0}
    read = {**record, "isolation_level": "read_committed", "poll": 0, "number": 0, "read_at": AT}
    effect = {**record, "processed_at": AT}
    write(run_dir, "reads", "consumer-0", [{**read, "offset": n} for n in range(reads)])
    write(run_dir, "effects", "consumer-0", [{**effect, "offset": n} for n in range(effects)])


@pytest.mark.parametrize(
    ("state", "reads", "effects", "reason"),
    [
        (State.DONE, 8, 8, ""),
        (State.DONE, 7, 8, "consumer-0 counted 8 reads, and its table has 7"),
        (State.DONE, 9, 8, "consumer-0 counted 8 reads, and its table has 9"),
        (State.DONE, 8, 7, "consumer-0 counted 8 effects, and its table has 7"),
        (State.CONSUMING, 9, 9, ""),  # killed: its tables may be ahead of its page
        (State.CONSUMING, 9, 7, "consumer-0 counted 8 effects, and its table has 7"),
    ],
)
def test_what_a_consumer_counted_is_in_its_tables(
    run_dir: Path, state: State, reads: int, effects: int, reason: str
) -> None:
    with_workload(run_dir, consumers={"g": {"commit": "after"}})
    page(run_dir, "consumer-0", state, 8, 8)
    consume(run_dir, reads, effects)
    assert said(run_dir) == reason


@pytest.mark.parametrize("table", ["reads", "effects"])
@pytest.mark.parametrize("change", [{"offset": 7}, {"partition": 1}, {"producer": 0}])
def test_a_consumer_processes_what_it_read(
    run_dir: Path, table: str, change: dict[str, int]
) -> None:
    with_workload(run_dir, consumers={"g": {"commit": "after"}})
    page(run_dir, "consumer-0", State.DONE, 8, 8)
    consume(run_dir, 8, 8)
    path = run_dir / LOCATION[table] / "consumer-0.parquet"
    rows = pq.read_table(path).to_pylist()
    write(run_dir, table, "consumer-0", rows[::-1])
    assert said(run_dir) == ""
    write(run_dir, table, "consumer-0", [{**rows[0], **change}, *rows[1:]])
    assert said(run_dir) == "consumer-0 has processed other records than it read"


def test_who_forwards_may_read_again_and_has_effects_elsewhere(run_dir: Path) -> None:
    with_workload(run_dir, consumers={"g": {"commit": "transaction", "into": ["copies"]}})
    path = run_dir / "scenario.yaml"
    document = YAML(typ="safe").load(path)
    YAML(typ="safe").dump({**document, "topics": document["topics"] | {"copies": {}}}, path)
    page(run_dir, "consumer-0", State.DONE, 8, 8)
    consume(run_dir, 9, 0)
    assert said(run_dir) == ""
    consume(run_dir, 7, 0)
    assert said(run_dir) == "consumer-0 counted 8 reads, and its table has 7"


def transact(run_dir: Path, *transactions: tuple[int, int, int, str]) -> None:
    """Write transactions: number, first sequence, end, outcome."""
    with_workload(run_dir, transactions={"size": 5})
    known = {"producer": 0, "transactional_id": "t", "initialized_at": AT, "ended_at": AT}
    names = ("transaction", "first_sequence", "end_sequence", "outcome")
    rows = [known | dict(zip(names, one, strict=True)) for one in transactions]
    write(run_dir, "transactions", "producer-0", rows)


def set_outcome(run_dir: Path, sequence: int, outcome: str) -> None:
    path = run_dir / LOCATION["ledger"] / "producer-0.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[sequence]["outcome"] = outcome
    runs.write_table(path, LEDGER, RUN_ID, rows)


BOTH = [(0, 0, 5, "committed"), (1, 5, 10, "committed")]


def test_sends_with_the_outcomes_of_their_transactions_pass(run_dir: Path) -> None:
    transact(run_dir, *BOTH)
    assert said(run_dir) == ""
    set_outcome(run_dir, 3, "failed")  # whatever became of its transaction
    set_outcome(run_dir, 9, "unknown")  # its transaction was committed without certainty of it
    assert said(run_dir) == ""


@pytest.mark.parametrize(
    ("transactions", "reason"),
    [
        ([BOTH[0]], "5 sends of producer-0 have not the outcome of their transaction"),
        ([], "10 sends of producer-0 have not the outcome of their transaction"),
        (
            [BOTH[0], (1, 5, 10, "aborted")],
            "5 sends of producer-0 have not the outcome of their transaction",
        ),
        (
            [BOTH[0], (2, 5, 10, "committed")],
            "the transactions of producer-0 are not numbered from 0 without a gap",
        ),
        ([(0, 0, 6, "committed"), BOTH[1]], "the transactions of producer-0 overlap"),
        (
            [BOTH[0], (1, 5, 11, "committed")],
            "the transactions of producer-0 have more sends than its ledger",
        ),
    ],
)
def test_transactions_that_the_ledger_contradicts_are_named(
    run_dir: Path, transactions: list[tuple[int, int, int, str]], reason: str
) -> None:
    transact(run_dir, *transactions)
    assert said(run_dir) == reason


@pytest.mark.parametrize("outcome", ["acked", "unknown", "aborted"])
def test_a_send_of_an_aborted_transaction_is_aborted(run_dir: Path, outcome: str) -> None:
    transact(run_dir, BOTH[0], (1, 5, 9, "committed"), (2, 9, 10, "aborted"))
    set_outcome(run_dir, 9, outcome)
    assert bool(said(run_dir)) == (outcome != "aborted")


def test_a_producer_counts_the_unknown_sends_of_committed_transactions(run_dir: Path) -> None:
    transact(run_dir, *BOTH)
    set_outcome(run_dir, 9, "unknown")
    page(run_dir, "producer-0", State.DONE, 10, 10)
    named = "producer-0 counted 0 unknown sends, and its committed transactions have 1"
    assert said(run_dir) == named
    page(run_dir, "producer-0", State.PRODUCING, 10, 10)  # killed: its page may be behind
    assert said(run_dir) == ""


def test_the_sends_of_transactions_are_numbered_without_a_gap(run_dir: Path) -> None:
    transact(run_dir, BOTH[0], (1, 5, 9, "committed"), (2, 9, 10, "aborted"))
    set_outcome(run_dir, 9, "aborted")
    assert said(run_dir) == ""
    path = run_dir / LOCATION["ledger"] / "producer-0.parquet"
    rows = pq.read_table(path).to_pylist()
    runs.write_table(path, LEDGER, RUN_ID, [*rows[:9], {**rows[9], "sequence": 99}])
    assert said(run_dir) == "producer-0 has 10 sends in its ledger, and the last is number 99"


def test_an_aborted_send_of_a_committed_transaction_is_named(run_dir: Path) -> None:
    transact(run_dir, *BOTH)
    set_outcome(run_dir, 2, "aborted")
    assert said(run_dir) == "1 sends of producer-0 have not the outcome of their transaction"


def test_a_producer_whose_transactions_are_missing_is_named(run_dir: Path) -> None:
    transact(run_dir, *BOTH)
    (run_dir / LOCATION["transactions"] / "producer-0.parquet").unlink()
    assert said(run_dir) == "10 sends of producer-0 have not the outcome of their transaction"


def test_producers_of_other_topics_have_no_transactions(run_dir: Path) -> None:
    transact(run_dir)
    path = run_dir / LOCATION["ledger"] / "producer-0.parquet"
    rows = pq.read_table(path).to_pylist()
    runs.write_table(path, LEDGER, RUN_ID, [{**row, "topic": "others"} for row in rows])
    assert said(run_dir) == ""


def probe(run_dir: Path) -> Path:
    """Have a probe write ten records and read four; return the file of its writes."""
    with_workload(run_dir, probe=True)
    ledger = run_dir / LOCATION["ledger"] / "producer-0.parquet"
    rows = pq.read_table(ledger).to_pylist()
    number = PROBE_PRODUCERS
    own = ledger.with_name(f"producer-{number}.parquet")
    runs.write_table(own, LEDGER, RUN_ID, [{**row, "producer": number} for row in rows])
    folder = run_dir / LOCATION["probe"]
    folder.mkdir()
    writes = folder / f"writes-{number}.parquet"
    pq.write_table(conversion.writes(own), writes)
    read = {"topic": TOPIC, "partition": 0, "action": "read", "at": AT, "ok": True}
    runs.write_table(folder / f"reads-{number}.parquet", PROBE, RUN_ID, [read] * 4)
    page(run_dir, "probe-0", State.DONE, 4, 4)
    page(run_dir, f"probe-{TOPIC}-0", State.DONE, 10, 10)
    return writes


def test_the_probes_attempts_are_those_that_it_made(run_dir: Path) -> None:
    writes = probe(run_dir)
    assert said(run_dir) == ""
    named = f"the probe's writes {PROBE_PRODUCERS} in the table probe are not those of its ledger"
    rows = pq.read_table(writes).to_pylist()
    for changed in ([], rows[1:], [*rows, rows[0]], [{**rows[0], "ok": False}, *rows[1:]]):
        runs.write_table(writes, PROBE, RUN_ID, changed)
        assert said(run_dir) == named
    runs.write_table(writes, PROBE, RUN_ID, rows[::-1])
    assert said(run_dir) == ""
    writes.unlink()
    assert said(run_dir) == named


def test_the_probes_reads_are_those_that_it_counted(run_dir: Path) -> None:
    probe(run_dir)
    assert said(run_dir) == ""
    for sent, acked in ((5, 5), (4, 3)):
        page(run_dir, "probe-0", State.DONE, sent, acked)
        counted = f"the probe counted {sent} attempts to read, {acked} of them answered"
        assert said(run_dir) == f"{counted}, and recorded 4 and 4"
    page(run_dir, "probe-0", State.SETTLING, 0, 0)  # killed, or of an older ackproof
    assert said(run_dir) == ""
