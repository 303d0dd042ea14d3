"""Real producer processes against librdkafka's mock cluster, which lives inside each of them."""

from __future__ import annotations

import gc
import itertools
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ackproof.clients import producer
from ackproof.clients.delivery_reports import Stalls
from ackproof.clients.process import ProducerProcess
from ackproof.clients.shared_page import Order, Progress, ProgressPage, State
from ackproof.clients.specs import ProducerSpec
from ackproof.clients.supervisor import ClientSupervisor
from ackproof.errors import ExitCode, WorkloadError
from ackproof.ledger.producer_ledger import recover, stream_path
from support.client_specs import producer_spec
from waiting import until

MOCK = {"test.mock.num.brokers": 3, "acks": "all", "linger.ms": 1}
WITHIN = 120.0

Start = Callable[..., ProducerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a producer; whatever a test leaves running is killed."""
    started: list[ProducerProcess] = []

    def start_producer(*, settings: dict | None = None, **fields) -> ProducerProcess:
        process = ProducerProcess(spec(tmp_path, settings=settings, **fields))
        process.start()
        started.append(process)
        return process

    yield start_producer
    for process in started:
        process.kill()


def spec(run_dir: Path, *, settings: dict | None = None, **fields) -> ProducerSpec:
    bounds = {} if {"records", "seconds"} & fields.keys() else {"seconds": 60}
    return producer_spec(run_dir, settings=MOCK | (settings or {}), **bounds | fields)


def ledger(process: ProducerProcess) -> pa.Table:
    assert process.spec.ledger is not None
    return recover(process.spec.ledger)


def finished(process: ProducerProcess) -> pa.Table:
    """Return the ledger of a producer that ends without an error."""
    assert process.wait(WITHIN) == 0, process.error
    return ledger(process)


def outcomes(table: pa.Table) -> dict[str, int]:
    return {row["values"]: row["counts"] for row in pc.value_counts(table["outcome"]).to_pylist()}


def test_every_send_is_recorded_once_with_its_offset_and_its_times(start):
    process = start(records=10_000)
    assert process.wait(WITHIN) == 0, process.error
    assert process.state is State.DONE
    assert process.progress() == Progress(sent=10_000, acked=10_000)
    table = ledger(process)
    assert sorted(table["sequence"].to_pylist()) == list(range(10_000))
    assert outcomes(table) == {"acked": 10_000}
    for partition in range(4):
        of = table.filter(pc.field("partition") == partition).sort_by("offset")
        assert of["offset"].to_pylist() == list(range(2_500))
        assert of["sequence"].to_pylist() == list(range(partition, 10_000, 4))
    began, ended = process.page.started_at, process.page.updated_at
    sent, resolved = (table[name].cast(pa.int64()) for name in ("sent_at", "resolved_at"))
    assert began <= pc.min(sent).as_py()
    assert pc.max(resolved).as_py() <= ended
    assert pc.all(pc.less_equal(sent, resolved)).as_py()


def partitions(table: pa.Table) -> dict[int, list[int]]:
    """Return what each partition holds, by offset."""
    rows = table.sort_by("offset").to_pylist()
    by_partition: dict[int, list[int]] = {}
    for row in rows:
        by_partition.setdefault(row["partition"], []).append(row["sequence"])
    return by_partition


def test_each_key_has_its_partition_and_its_sends_their_order(start):
    by_partition = partitions(finished(start(records=2_000, keys=7)))
    where = {sequence: place for place, sequences in by_partition.items() for sequence in sequences}
    assert sorted(where) == list(range(2_000))
    assert all(where[one] == where[one % 7] for one in where)
    assert len(by_partition) > 1
    assert all(sequences == sorted(sequences) for sequences in by_partition.values())


def test_a_closed_loop_has_at_most_its_window_in_flight(start):
    process = start(records=200, window=3, settings={"linger.ms": 0})
    rows = finished(process).sort_by("sequence").to_pylist()
    assert [row["sequence"] for row in rows] == list(range(200))
    for row in rows:
        before = rows[: row["sequence"]]
        assert sum(one["resolved_at"] > row["sent_at"] for one in before) < 3


def test_in_an_open_loop_sent_at_is_the_time_a_send_was_due(start):
    rate = 500.0
    process = start(rate=rate)
    until(lambda: process.progress().acked >= 50)
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(WorkloadError, match=r"still runs \(producing"):
        process.wait(0.5)
    stalled = process.progress().acked
    os.kill(process.pid, signal.SIGCONT)
    until(lambda: process.progress().acked >= stalled + 250)
    process.stop()
    rows = finished(process).sort_by("sequence").to_pylist()
    gaps = [
        (later["sent_at"] - row["sent_at"]).total_seconds()
        for row, later in itertools.pairwise(rows)
    ]
    assert gaps == pytest.approx([1 / rate] * len(gaps), abs=0.0005)
    assert max((row["resolved_at"] - row["sent_at"]).total_seconds() for row in rows) > 0.4
    # On a busy machine more than those of the half second are late.
    assert process.late_share * process.progress().acked >= 0.3 * rate


def test_acks_0_has_no_offset(start):
    table = finished(start(records=100, settings={"acks": 0}))
    assert outcomes(table) == {"acked": 100}
    assert table["offset"].null_count == 100


def test_with_a_full_queue_the_producer_waits_and_no_send_fails(start):
    table = finished(start(records=2_000, settings={"queue.buffering.max.messages": 7}))
    assert outcomes(table) == {"acked": 2_000}
    assert sorted(table["sequence"].to_pylist()) == list(range(2_000))


def test_records_that_librdkafka_refuses_are_failed(start):
    """librdkafka counts 36 bytes of its own, so values of 965 bytes and more are refused here."""
    process = start(records=2_000, size=900, largest=968, settings={"message.max.bytes": 1_000})
    table = finished(process)
    assert sorted(table["sequence"].to_pylist()) == list(range(2_000))
    assert set(outcomes(table)) == {"acked", "failed"}
    assert set(table["error"].to_pylist()) == {None, "MSG_SIZE_TOO_LARGE"}
    assert table["sent_at"].null_count == 0
    assert table["offset"].null_count == outcomes(table)["failed"]
    progress = process.progress()
    assert {"acked": progress.acked, "failed": progress.failed} == outcomes(table)


def test_a_send_that_times_out_is_unknown(start):
    """librdkafka looks for sends that timed out once a second: the answer comes much later."""
    settings = {"test.mock.broker.rtt": 3_000, "delivery.timeout.ms": 200}
    process = start(records=50, settings=settings)
    assert process.wait(WITHIN) == 0, process.error
    assert process.progress() == Progress(sent=50, unknown=50)
    table = ledger(process)
    assert set(table["error"].to_pylist()) == {"_MSG_TIMED_OUT"}
    assert table["sent_at"].null_count == 0


def test_after_sigkill_the_ledger_has_the_published_outcomes_and_every_reserved_send(start):
    process = start()
    until(lambda: process.progress().acked > 20_000)
    process.kill()
    shown = process.progress()
    assert process.returncode == -signal.SIGKILL
    table = ledger(process)
    counts = outcomes(table)
    assert counts["acked"] >= shown.acked
    assert table.num_rows >= shown.sent
    assert sorted(table["sequence"].to_pylist()) == list(range(table.num_rows))
    unresolved = table.filter(pc.field("outcome") == "unknown")
    assert unresolved.num_rows > 0
    assert unresolved["resolved_at"].null_count == unresolved.num_rows
    process.log.write_text("the last words")
    assert "the last words" in process.error
    assert "-9" in process.error


@pytest.mark.parametrize("how", ["page", "SIGTERM"])
def test_a_stop_waits_for_sends_in_flight(start, how):
    process = start(rate=2_000)
    until(lambda: process.progress().acked > 0)
    if how == "page":
        process.stop()
    else:
        os.kill(process.pid, signal.SIGINT)  # Ctrl-C is ignored
        before = process.progress().acked
        until(lambda: process.progress().acked > before + 2_000)
        os.kill(process.pid, signal.SIGTERM)
    table = finished(process)
    progress = process.progress()
    assert progress.acked == progress.sent
    assert outcomes(table) == {"acked": progress.sent}


@pytest.mark.parametrize(
    "stopped", ["never", pytest.param("sending", marks=pytest.mark.slow), "starting"]
)
def test_a_producer_ends_without_its_parent(tmp_path, stopped):
    specification = spec(tmp_path)
    path = tmp_path / "spec.json"
    path.write_text(specification.to_json())
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time; from pathlib import Path\n"
            "from ackproof.clients.process import ProducerProcess\n"
            "from ackproof.clients.specs import ProducerSpec\n"
            "process = ProducerProcess(ProducerSpec.from_json(Path(sys.argv[1]).read_text()))\n"
            "process.start(); print(process.pid, flush=True); time.sleep(60)",
            str(path),
        ],
        stdout=subprocess.PIPE,
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    page = ProgressPage(specification.progress)
    try:
        if stopped == "starting":
            until(lambda: page.state is not State.LOADING)
        else:
            until(lambda: page.read().acked > 0)
        if stopped != "never":
            os.kill(pid, signal.SIGSTOP)
        parent.kill()
        parent.wait()
        until(lambda: page.state is State.DONE)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
        if page.state is not State.DONE:
            os.kill(pid, signal.SIGKILL)
    sent = page.read().sent
    assert outcomes(recover(stream_path(tmp_path, 0))) == ({"acked": sent} if sent else {})
    page.close()


def test_an_unwritable_ledger_ends_the_producer_and_keeps_recorded_sends(start):
    process = start()
    until(lambda: process.progress().acked > 0)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, 1))
    assert process.wait(WITHIN) == ExitCode.ENVIRONMENT
    assert re.search("the ledger .* cannot be written", process.error)
    assert outcomes(ledger(process))["acked"] == process.progress().acked


def test_the_reason_of_a_failed_start_is_reported(start):
    process = start(records=1, settings={"no.such.setting": 1})
    assert process.wait(WITHIN) == ExitCode.ENVIRONMENT
    assert process.state is State.BROKEN
    assert "no.such.setting" in process.error


def test_a_process_that_was_not_started_is_an_error(tmp_path):
    with pytest.raises(WorkloadError, match="not started"):
        ProducerProcess(spec(tmp_path)).wait()


@pytest.mark.parametrize(
    ("busy", "late", "bottlenecks", "late_ones"),
    [
        (0.9, 0.02, [], []),
        (0.95, 0.01, ["producer 0 was busy 95% of the time"], []),
        (0.1, 0.06, [], ["producer 0 took 6% of the acks late"]),
    ],
)
def test_a_slow_and_a_late_producer_are_reported(busy, late, bottlenecks, late_ones):
    producer = SimpleNamespace(name="producer 0", busy_share=busy, late_share=late)
    clients = SimpleNamespace(producers=[producer])
    assert ClientSupervisor.bottlenecks(clients) == bottlenecks
    assert ClientSupervisor.late(clients) == late_ones


@pytest.mark.parametrize(("rate", "busy"), [(None, (0, 1)), (10, (0, 0.5))])
def test_the_producer_stops_after_its_seconds_and_measures_how_busy_it_was(start, rate, busy):
    process = start(seconds=1.0, rate=rate)
    assert process.wait(WITHIN) == 0, process.error
    assert process.progress().sent == process.progress().acked > 0
    assert busy[0] < process.busy_share <= busy[1]


def test_acks_that_wait_in_the_queue_at_the_end_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ProgressPage(tmp_path / "producer-0.page", create=True)
    page.give(Order.FILL)  # never polls, as a process that is suspended
    made = spec(tmp_path, records=100)
    # The wait for outcomes is over after three seconds, long after the last of them.
    monkeypatch.setattr(producer, "SETTLE_MARGIN_S", 3.0 - made.delivery_timeout_s)
    try:
        producer.begin(made, page, {}).run()
    finally:
        gc.enable()
        gc.unfreeze()
    assert page.read() == Progress(sent=100, acked=100)
    page.close()


SECOND = 1_000_000


def late(stalls, sent_s, resolved_s):
    return stalls.late(
        np.array([int(sent_s * SECOND)], np.int64), np.array([int(resolved_s * SECOND)], np.int64)
    )


@pytest.fixture
def stalls():
    """Two stalls, from 10 to 10.5 s and from 20 to 20.2 s, and polls between."""
    stalls = Stalls()
    for before, now in [(9.99, 10.0), (10.0, 10.5), (10.5, 10.6), (19.9, 20.0), (20.0, 20.2)]:
        stalls.served(int(before * SECOND), int(now * SECOND))
    return stalls


@pytest.mark.parametrize(
    ("sent", "resolved", "because_of_the_client"),
    [
        (9.9, 10.5, True),  # its report waited
        (10.2, 10.55, True),  # it was due while nobody sent
        (10.45, 10.55, False),  # hardly any of it
        (10.55, 15.0, False),  # whatever the cluster did, nobody stalled
        (2.0, 10.5, False),  # 8 s are the cluster's
        (6.0, 10.5, True),  # more than a tenth
        (9.9, 20.3, False),  # 0.7 of 10.4 s
        (15.0, 20.3, False),
        (18.9, 20.3, True),
    ],
)
def test_an_ack_is_late_if_a_stall_is_much_of_its_latency(
    stalls, sent, resolved, because_of_the_client
):
    assert late(stalls, sent, resolved) == because_of_the_client


def test_without_a_stall_nothing_is_late():
    stalls = Stalls()
    stalls.served(0, 90_000)
    assert late(stalls, 0, 9) == 0
