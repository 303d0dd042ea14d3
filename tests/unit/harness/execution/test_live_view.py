"""The live view and the process of the live job, which is a small script here."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from ackproof.cluster.admin import PartitionView
from ackproof.errors import SparkError
from ackproof.execution import live_view
from ackproof.execution.live_view import (
    LedgerCounts,
    LiveJob,
    LivePartition,
    LiveView,
    live_line,
    live_table,
)
from ackproof.ledger import producer_ledger
from ackproof.ledger.producer_ledger import LedgerWriter, stream_path
from ackproof.progress import ConsoleReporter
from ackproof_spark.ledger_stream import Origin
from ackproof_spark.tables import LIVE_PARTITIONS, LOCATION
from waiting import until

ROW = {
    "schema_version": 1,
    "run_id": "run",
    "topic": "orders",
    "partition": 0,
    "batch": 3,
    "at": 0,
    "acked": 1000,
    "failed": 2,
    "unknown": 3,
    "read": 990,
    "acked_offset": 999,
    "read_offset": 989,
    "lag": 10,
    "unseen": 12,
    "candidates": 4,
}

#: Writes the table of a started job, then follows standard input.
JOB = """
import os, sys, shutil
shutil.copy({table!r}, {target!r} + ".new")
os.replace({target!r} + ".new", {target!r})
assert sys.stdin.readline() == '{{"client": {{"sasl.password": "secret"}}}}\\n'
line = sys.stdin.readline()
open({output!r}, "w").write(line)
sys.exit({code})
"""


def table(path: Path, **changed: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([ROW | changed], schema=LIVE_PARTITIONS), path)
    return path


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., LiveJob]:
    def make(code: int = 0, script: str = JOB) -> LiveJob:
        made = LiveJob(
            tmp_path,
            bootstrap_servers="unused:1",
            settings={"sasl.password": "secret"},
            topics=["orders"],
        )
        target = tmp_path / LOCATION["live_partitions"]
        text = script.format(
            table=str(table(tmp_path / "source.parquet")),
            target=str(target),
            output=str(tmp_path / "output"),
            code=code,
        )
        made._command = [sys.executable, "-c", text]
        return made

    return make


class FakeAdmin:
    def partitions(self) -> dict[tuple[str, int], PartitionView]:
        return {("orders", 0): PartitionView(leader=2, replicas=(1, 2, 3), isr=(2, 3))}


def reporter(terminal: bool = False) -> tuple[ConsoleReporter, io.StringIO]:
    stream = io.StringIO()
    return ConsoleReporter(Console(file=stream, width=200, force_terminal=terminal)), stream


def test_the_job_gets_the_end_offsets_and_is_waited_for(job, tmp_path):
    with job() as running:
        running.await_start()
        assert running.rows()[0]["acked"] == 1000
        running.end({("orders", 0): 1200, ("orders", 1): 0})
        assert running.over
    assert (tmp_path / "output").read_text() == '{"ends": {"orders": {"0": 1200, "1": 0}}}\n'


def test_a_job_that_was_not_ended_is_stopped(job, tmp_path):
    with job() as running:
        running.await_start()
    assert running.over
    assert (tmp_path / "output").read_text() == "", "its standard input was closed, nothing else"


def test_a_job_that_does_not_stop_is_killed(job, monkeypatch):
    monkeypatch.setattr(live_view, "_STOP_S", 0.1)
    with job(script=JOB.replace("line =", "import time; time.sleep(1000); line =")) as running:
        running.await_start()
    assert running.over


@pytest.mark.parametrize("script", ["import sys; sys.exit('no Java here')", JOB])
def test_the_error_of_a_job_has_its_log(job, script):
    def whole_life(running):
        running.await_start()
        running.end({})

    with job(code=4, script=script) as running, pytest.raises(SparkError, match="ended with"):
        whole_life(running)


def view_of(running: LiveJob, output: ConsoleReporter, run_dir: Path) -> LiveView:
    return LiveView(
        running,
        counts=LedgerCounts(run_dir),
        topics=["orders"],
        admin=FakeAdmin(),
        faults=lambda: ["kill of 1"],
        reporter=output,
    )


def ledger(run_dir: Path, number: int = 0) -> LedgerWriter:
    """Return the ledger of a producer that sends round robin to two partitions."""
    (run_dir / LOCATION["ledger"]).mkdir(exist_ok=True)
    origin = Origin(run_id="run", producer=number, topic="orders", partitions=2)
    writer = LedgerWriter(stream_path(run_dir, number), origin)
    writer.reserve(100)
    return writer


def append(writer: LedgerWriter, *sequences: int, outcome: int = 0) -> None:
    count = len(sequences)
    writer.write(
        sequence=np.array(sequences),
        outcome=outcome,
        sent_at=np.zeros(count, np.int64),
        resolved_at=np.ones(count, np.int64),
    )


def test_outcomes_are_counted_by_partition_as_the_ledger_grows(tmp_path):
    counts = LedgerCounts(tmp_path)
    assert counts.update() == {}
    first, second = ledger(tmp_path, 0), ledger(tmp_path, 1)
    append(first, 0, 1, 2)
    append(second, 1, 3, outcome=1)
    assert counts.update() == {("orders", 0): [2, 0, 0], ("orders", 1): [1, 2, 0]}
    append(first, 4, outcome=2)
    append(second, 0, 2)
    expected = {("orders", 0): [4, 0, 1], ("orders", 1): [1, 2, 0]}
    assert counts.update() == expected
    producer_ledger.close(tmp_path)
    assert counts.update() == expected


def test_before_the_job_starts_the_view_shows_leaders_and_then_the_ledger(job, tmp_path):
    with job(script="import time; time.sleep(1000)") as running:
        view = view_of(running, reporter()[0], tmp_path)
        (only,) = view.partitions()
        append(ledger(tmp_path), 0, 1, 2)
        zero, one = view.partitions()
        running._process.kill()
    assert (only.topic, only.partition, only.leader, only.acked) == ("orders", 0, 2, 0)
    assert (zero.acked, zero.leader, zero.isr) == (2, 2, (2, 3))
    assert (one.acked, one.leader) == (1, None)
    assert {zero.read, zero.lag, zero.unseen, zero.candidates} == {None}
    assert "3 acked" in live_line([zero, one], [])
    assert "unseen" not in live_line([zero, one], [])


def test_without_a_terminal_there_are_lines(job, tmp_path):
    output, stream = reporter()
    with job() as running:
        running.await_start()
        with view_of(running, output, tmp_path):
            until(stream.getvalue)
    first, *_, last = stream.getvalue().splitlines()
    assert "1,000 acked" in first
    assert "lag 10, 12 unseen, 4 loss candidates; in force: kill of 1" in first
    assert last.endswith("12 unseen, 4 loss candidates")


def test_on_a_terminal_there_is_a_table_below_the_phase(job, tmp_path):
    output, stream = reporter(terminal=True)
    with job() as running:
        running.await_start()
        with output.phase("producing"), view_of(running, output, tmp_path):
            until(lambda: "loss candidates" in stream.getvalue())
            output.update("still at it")
    text = stream.getvalue()
    assert "orders-0" in text
    assert "in force: kill of 1" in text


def test_a_failed_job_is_reported_once_and_the_view_continues(job, tmp_path):
    output, stream = reporter()
    writer = ledger(tmp_path)
    append(writer, 0, 2)
    with job(code=4) as running:
        running.await_start()
        running._process.stdin.close()
        with view_of(running, output, tmp_path) as view:
            until(lambda: view.job_failed)
            append(writer, 4)
            with view.without_job_on_error():
                running.check()
    assert stream.getvalue().count("the run goes on without its live job") == 1
    last = stream.getvalue().splitlines()[-1]
    assert "3 acked" in last
    assert "unseen" not in last


def test_a_stopped_job_is_no_failure_and_the_view_continues(job, tmp_path):
    output, stream = reporter()
    with job(code=4) as running:
        running.await_start()
        with view_of(running, output, tmp_path) as view:
            view.stop_job()
            until(lambda: running.over)
            append(ledger(tmp_path), 0, 2)
            view.end_job({})
    assert "ended with" not in stream.getvalue()
    last = stream.getvalue().splitlines()[-1]
    assert "2 acked" in last
    assert "unseen" not in last


def test_a_job_that_starts_late_is_shown_when_it_has_started(job, tmp_path, monkeypatch):
    monkeypatch.setattr(live_view, "_START_S", 0.1)
    output, stream = reporter()
    with job(script="import time; time.sleep(1000)") as running:
        view = view_of(running, output, tmp_path)
        with view.without_job_on_error():
            running.await_start()
        assert "did not start within 0.1 s" in stream.getvalue()
        table(tmp_path / LOCATION["live_partitions"], candidates=7)
        assert view.partitions()[0].candidates == 7
        running._process.kill()


def test_a_rate_is_that_of_the_last_seconds(job, tmp_path):
    with job() as running:
        view = view_of(running, reporter()[0], tmp_path)
        partition = ("orders", 0)
        assert view._rate(partition, 0.0, 100) == 0
        assert view._rate(partition, 2.0, 300) == 100
        for second in range(3, 20):
            rate = view._rate(partition, float(second), 300)
        assert rate == 0


def partition(**changed: object) -> LivePartition:
    known = {name: ROW[name] for name in LivePartition.__slots__ if name in ROW}
    given = {"leader": None, "isr": (), "acked_per_s": 12.4, **known, **changed}
    return LivePartition(**given)


def test_the_table_shows_a_missing_leader_losses_and_dashes_for_what_is_not_counted():
    stream = io.StringIO()
    Console(file=stream, width=160).print(live_table([partition(lag=None)], []))
    header, row, caption = (line.split() for line in stream.getvalue().splitlines())
    assert header[:3] == ["partition", "leader", "isr"]
    assert row == ["orders-0", "none", "?", "12", "1,000", "2", "3", "990", "-", "12", "4"]
    assert caption == ["no", "fault", "in", "force"]
    uncounted = partition(read=None, lag=None, unseen=None, candidates=None)
    Console(file=stream, width=160).print(live_table([uncounted], []))
    assert stream.getvalue().splitlines()[-2].split()[-4:] == ["-", "-", "-", "-"]


def test_the_line_adds_up_all_partitions():
    line = live_line([partition(), partition(partition=1, lag=70)], [])
    assert "2,000 acked (25/s), 4 failed, 6 unknown, 1,980 read, lag 70, 24 unseen, 8 loss" in line


def test_lines_are_printed_at_intervals():
    output, stream = reporter()
    began = time.monotonic()
    while time.monotonic() - began < 0.2:
        output.show("table", line="line")
    assert stream.getvalue().count("line") == 1
