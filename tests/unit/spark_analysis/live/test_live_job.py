"""The streaming job on a ledger that grows and on files in place of topics: with real Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tenacity import Retrying, retry_if_exception_message, stop_after_attempt

from ackproof.ledger.producer_ledger import LedgerWriter, stream_path
from ackproof_spark.errors import AnalysisError
from ackproof_spark.ledger_stream import Origin
from ackproof_spark.live import job
from ackproof_spark.live.job import Following
from ackproof_spark.live.ledger_source import EVENTS
from ackproof_spark.live.partition import Kind
from ackproof_spark.live.store import LiveTables
from ackproof_spark.tables import LIVE_FINDINGS, LOCATION

pytestmark = [pytest.mark.spark, pytest.mark.slow]

START_US = 1_767_225_600_000_000
PARTITIONS = 2
STEP = 300
FAILED = 2
#: Sends a second.
RATE = 100
STEPS = 6
#: Sequences that are acked and will not be read.
LOST = frozenset(range(700, 720))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run in steps: each appends to the ledger and to what can be read."""

    directory: Path
    writer: LedgerWriter

    @classmethod
    def begun(cls, directory: Path) -> Run:
        (directory / "reads").mkdir(parents=True)
        origin = Origin(run_id=directory.name, producer=0, topic="orders", partitions=PARTITIONS)
        writer = LedgerWriter(stream_path(directory, 0), origin)
        writer.reserve(STEPS * (STEP + FAILED))
        return cls(directory=directory, writer=writer)

    def step(self, number: int) -> None:
        sequence = np.arange(number * STEP, (number + 1) * STEP)
        at = START_US + sequence * 1_000_000 // RATE
        half = len(sequence) // 2
        for part in (slice(None, half), slice(half, None)):
            self.writer.write(
                sequence=sequence[part],
                outcome=0,
                offset=pa.array(sequence[part] // PARTITIONS),
                sent_at=at[part] - 2000,
                resolved_at=at[part],
            )
        # Failed sends have no offset and no record.
        failed = np.arange(FAILED) + STEPS * STEP + FAILED * number
        self.writer.write(
            sequence=failed, outcome=1, sent_at=at[:2] - 2000, resolved_at=at[:2] + 500
        )
        readable = [int(each) for each in sequence if each not in LOST]
        rows = [
            {
                "topic": "orders",
                "partition": each % PARTITIONS,
                "kind": int(Kind.READ),
                "producer": 0,
                "sequence": each,
                "offset": each // PARTITIONS,
                "at": int(at[-1]),
            }
            for each in readable
        ]
        reads = self.directory / "reads"
        pq.write_table(pa.Table.from_pylist(rows, schema=EVENTS), reads / f"_{number}")
        (reads / f"_{number}").rename(reads / f"{number}.parquet")

    def follow(self, spark: Any) -> Following:
        from pyspark.sql.pandas.types import from_arrow_schema

        reads = spark.readStream.schema(from_arrow_schema(EVENTS)).parquet(
            str(self.directory / "reads")
        )
        return job.follow(
            spark,
            self.directory,
            run_id=self.directory.name,
            events=job.ledger_events(spark, self.directory).unionByName(reads),
            trigger_s=0,
        )


def tables(run_dir: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the live tables, sorted, without the columns that differ between two jobs."""
    by_name = {}
    for name in ("live_findings", "live_partitions"):
        rows = pq.read_table(run_dir / LOCATION[name]).to_pylist()
        for row in rows:
            del row["run_id"]
            row.pop("batch", None)
        by_name[name] = sorted(rows, key=lambda row: [str(value) for value in row.values()])
    return by_name


def despite_load(
    run: Run, spark: Any, action: Callable[[Following], None], following: Following | None = None
) -> Following:
    """Call drain or end, on a new job if None is given; return the job.

    On a busy machine a Python worker may take longer to start than the 10 s that Spark waits. Then
    the job is started again, as `ackproof_spark.live` does.
    """
    attempts = Retrying(
        retry=retry_if_exception_message(match="(?s).*Python worker failed to connect back"),
        stop=stop_after_attempt(5),
        reraise=True,
    )
    for attempt in attempts:
        with attempt:
            current, following = following or run.follow(spark), None
            action(current)
    return current


def finish(run: Run, spark: Any, following: Following | None = None, *, first: int) -> None:
    """Do the steps from `first` on, at least one micro-batch each, and end."""
    for number in range(first, STEPS):
        run.step(number)
        following = despite_load(run, spark, Following.drain, following)
    despite_load(run, spark, Following.end, following)


@pytest.fixture(scope="module")
def undisturbed(spark, tmp_path_factory) -> Path:
    run = Run.begun(tmp_path_factory.mktemp("live") / "undisturbed")
    finish(run, spark, first=0)
    return run.directory


def test_every_outcome_and_every_read_is_counted_once(undisturbed):
    by_name = tables(undisturbed)
    for name, expected in (
        ("acked", STEPS * STEP),
        ("failed", STEPS * FAILED),
        ("unknown", 0),
        ("read", STEPS * STEP - len(LOST)),
        ("unseen", len(LOST)),
        ("candidates", len(LOST)),
    ):
        assert sum(row[name] for row in by_name["live_partitions"]) == expected, name
    lost = [(row["finding"], row["sequence"]) for row in by_name["live_findings"]]
    assert sorted(lost) == [("lost", number) for number in sorted(LOST)]


class _PowerCutError(Exception):
    pass


def test_a_job_that_dies_leaves_the_same_tables_as_an_undisturbed_one(
    spark, undisturbed, tmp_path, monkeypatch
):
    """It dies when all tables are written, before Spark commits the batch; see also test_view."""
    run = Run.begun(tmp_path / "disturbed")
    run.step(0)
    following = despite_load(run, spark, Following.drain)
    write = LiveTables.write

    def die(tables: LiveTables, *given: Any) -> None:
        write(tables, *given)
        raise _PowerCutError

    monkeypatch.setattr(LiveTables, "write", die)
    run.step(1)
    with pytest.raises(AnalysisError, match="PowerCut"):
        despite_load(run, spark, Following.drain, following)
    monkeypatch.undo()
    finish(run, spark, despite_load(run, spark, Following.drain), first=2)
    assert tables(run.directory) == tables(undisturbed)


def test_without_its_checkpoint_the_job_begins_anew(spark, tmp_path):
    run = Run.begun(tmp_path / "anew")
    stale = run.directory / LOCATION["live_findings"] / "batch-000000099.parquet"
    stale.parent.mkdir(parents=True)
    pq.write_table(LIVE_FINDINGS.empty_table(), stale)
    run.step(0)
    following = run.follow(spark)
    assert not stale.exists()
    following = despite_load(run, spark, Following.drain, following)
    following.stop()
    assert sum(row["acked"] for row in following.tables.partitions()) == STEP


def test_a_job_that_is_started_late_reads_a_long_ledger_in_several_micro_batches(spark, tmp_path):
    run = Run.begun(tmp_path / "late")
    run.step(0)
    count = 600_000
    for sequence in np.split(np.arange(STEP, STEP + count), 60):
        at = START_US + sequence
        run.writer.write(
            sequence=sequence,
            outcome=0,
            offset=pa.array(sequence // PARTITIONS),
            sent_at=at,
            resolved_at=at,
        )
    following = despite_load(run, spark, Following.drain)
    following.stop()
    rows = following.tables.partitions()
    assert sum(row["acked"] for row in rows) == STEP + count
    assert sum(row["unseen"] for row in rows) == count
    assert rows[0]["batch"] >= 1


def test_a_run_that_closes_its_ledger_too_soon_is_an_error(spark, tmp_path):
    from ackproof.ledger import producer_ledger

    run = Run.begun(tmp_path / "closed")
    run.step(0)
    despite_load(run, spark, Following.drain).stop()
    run.step(1)
    producer_ledger.close(run.directory)
    with pytest.raises(AnalysisError, match="closed before it was followed to its end"):
        despite_load(run, spark, Following.drain)
