"""The pass over a ledger gives the same answers in batches of any size."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.judgement import evidence
from ackproof.judgement.reads import LastRead, last_reads
from ackproof.judgement.sends import NEVER, Sends, sends_of
from support.run_directories import START, TOPIC, RunDirectory, at, small

BEGIN = int(START.timestamp() * 1e6)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """Eight sends in two partitions: a committed, an aborted, and an unfinished transaction."""
    run = RunDirectory.create(tmp_path, small())
    outcomes = ["acked", "unknown", "acked", "acked", "aborted", "unknown", "acked", "failed"]
    sends = [
        {
            "topic": TOPIC,
            "partition": number % 2,
            "sequence": number,
            "outcome": outcome,
            "sent_at": at(number),
            "resolved_at": at(number + 0.5),
        }
        for number, outcome in enumerate(outcomes)
    ]
    sends[2]["resolved_at"] = at(0.5)  # before it was sent
    sends[0]["resolved_at"] = None  # an ack without a time
    run.write("ledger", sends, name="producer-0")
    ranges = (0, 3, "committed"), (3, 6, "aborted")
    rows = [
        {"transaction": number, "first_sequence": first, "end_sequence": end, "outcome": outcome}
        for number, (first, end, outcome) in enumerate(ranges)
    ]
    return run.write("transactions", rows, name="producer-0")


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_sends(rows: int, run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "_BATCH", rows)
    known = run.evidence()
    assert sends_of(known, run.file("ledger", "producer-0")) == Sends(
        producer=0,
        rows=8,
        last_sequence=7,
        first_at=BEGIN,
        last_at=BEGIN + 7_500_000,
        last_acks={(TOPIC, 0): NEVER, (TOPIC, 1): BEGIN + 3_500_000},
        untimed=1,
        backwards=1,
        sent_at={number: BEGIN + number * 1_000_000 for number in (0, 3, 6)},
        contradicting=3,  # 3, 5, 6
        doubtful=1,
    )


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_last_reads(rows: int, run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A closing record, at the end of a partition, is read, and is no record of a producer."""
    monkeypatch.setattr(evidence, "_BATCH", rows)
    run.write("partition_ends", [{"topic": TOPIC, "partition": 1, "end_offset": 2}])
    reads = [("g", 0, 7), ("g", 1, 0), ("g", 1, 1), ("g", 1, 2), ("h", 1, 2)]
    for name in ("consumer-0", "consumer-1"):
        table = [
            {"group": group, "topic": TOPIC, "partition": partition, "offset": offset}
            | {"read_at": at(offset)}
            for group, partition, offset in reads
        ]
        run.write("reads", table, name=name)
        reads = [("g", 0, 9)]
    assert last_reads(run.evidence()) == {
        ("g", (TOPIC, 0)): LastRead(offset=9, at=BEGIN + 9_000_000),
        ("g", (TOPIC, 1)): LastRead(offset=2, at=BEGIN + 1_000_000),
        ("h", (TOPIC, 1)): LastRead(offset=2, at=-1),
    }
