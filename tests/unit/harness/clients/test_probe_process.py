"""A real probe process against librdkafka's mock cluster, which this process holds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError

from ackproof.clients.process import ProbeProcess
from ackproof.clients.shared_page import State, recorded
from ackproof.clients.specs import WRITER_SETTINGS, ProbeSpec
from ackproof.ledger import conversion, probed_ends, producer_ledger
from ackproof_spark.record import HEADER_SIZE
from ackproof_spark.tables import LOCATION, PROBE, PROBE_PRODUCERS
from support.client_specs import producer_spec
from unit.harness.clients.mock_cluster import MockCluster, mock_cluster
from waiting import until

PARTITIONS = 2
WITHIN = 120.0

Start = Callable[[], ProbeProcess]


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with mock_cluster() as cluster:
        yield cluster


def spec(run_dir: Path, bootstrap: str) -> ProbeSpec:
    writers = [
        producer_spec(
            run_dir,
            PROBE_PRODUCERS + partition,
            run_id=run_dir.name,
            partitions=PARTITIONS,
            partition=partition,
            bootstrap_servers=bootstrap,
            settings=WRITER_SETTINGS,
            seconds=120,
            rate=10,
            size=HEADER_SIZE,
        )
        for partition in range(PARTITIONS)
    ]
    return ProbeSpec(
        run_id=run_dir.name,
        number=0,
        writers=writers,
        attempts=[conversion.reads_path(run_dir, one.number) for one in writers],
        ends=run_dir / probed_ends.NAME,
        progress=run_dir / "probe-0.progress",
    )


@pytest.fixture
def start(tmp_path: Path, cluster: MockCluster) -> Iterator[Start]:
    started: list[ProbeProcess] = []

    def start_probe() -> ProbeProcess:
        process = ProbeProcess(spec(tmp_path, cluster.bootstrap))
        process.start()
        started.append(process)
        until(lambda: process.state is State.PRODUCING or process.returncode is not None)
        assert process.returncode is None, process.error
        return process

    yield start_probe
    for process in started:
        process.kill()


def written(process: ProbeProcess) -> int:
    return min(
        producer_ledger.recover(one.ledger).num_rows if one.ledger.exists() else 0
        for one in process.spec.writers
    )


def rows(run_dir: Path) -> list[dict]:
    conversion.close(run_dir)
    table = pa.concat_tables(
        pq.read_table(file, schema=PROBE)
        for file in (run_dir / LOCATION["probe"]).glob("*.parquet")
    )
    return table.to_pylist()


def test_each_partition_is_read_and_written_and_every_attempt_is_counted(start, tmp_path):
    process = start()
    until(lambda: written(process) >= 20)
    process.stop()
    assert process.wait(WITHIN) == 0, process.error
    table = rows(tmp_path)
    for partition in range(PARTITIONS):
        for action in ("read", "write"):
            own = [r for r in table if (r["partition"], r["action"]) == (partition, action)]
            assert sum(row["ok"] for row in own) >= 3
            assert all(row["answered_at"] >= row["at"] for row in own if row["ok"])
        written_there = {
            (row["offset"], row["producer"], row["sequence"])
            for row in table
            if row["partition"] == partition and row["action"] == "write" and row["ok"]
        }
        read_there = {
            (row["offset"], row["producer"], row["sequence"])
            for row in table
            if row["partition"] == partition
            and row["action"] == "read"
            and row["producer"] is not None
        }
        assert read_there
        assert read_there <= written_there
    assert rows(tmp_path) == table  # closing again changes nothing
    for writer in process.spec.writers:
        page = recorded(writer.progress)
        own = [r for r in table if (r["partition"], r["action"]) == (writer.partition, "write")]
        assert (page.state, page.counted.sent) == (State.DONE, len(own))
    counted = recorded(process.spec.progress).counted
    reads = [row["ok"] for row in table if row["action"] == "read"]
    assert (counted.sent, counted.acked) == (len(reads), sum(reads))


def test_a_refused_write_is_recorded_once_with_its_error(start, tmp_path, cluster):
    process = start()
    until(lambda: written(process) >= 5)
    cluster.answer_produce(KafkaError.NOT_ENOUGH_REPLICAS)
    refused = lambda: [  # noqa: E731
        row
        for one in process.spec.writers
        for row in producer_ledger.recover(one.ledger).to_pylist()
        if row["error"] == "NOT_ENOUGH_REPLICAS"
    ]
    until(refused)
    process.stop()
    assert process.wait(WITHIN) == 0, process.error
    errors = [row for row in rows(tmp_path) if row["error"] == "NOT_ENOUGH_REPLICAS"]
    assert {(row["action"], row["ok"]) for row in errors} == {("write", False)}


def test_what_was_recorded_survives_a_kill(start, tmp_path):
    process = start()
    until(lambda: written(process) >= 10)
    process.kill()
    table = rows(tmp_path)
    assert {row["action"] for row in table if row["ok"]} == {"read", "write"}


def test_the_probe_ends_with_its_parent(tmp_path, cluster):
    path = tmp_path / "spec.json"
    path.write_text(spec(tmp_path, cluster.bootstrap).to_json())
    script = (
        "import sys; from pathlib import Path; from ackproof.clients.specs import ProbeSpec; "
        "from ackproof.clients.process import ProbeProcess; from dataclasses import replace; "
        "p = ProbeProcess(ProbeSpec.from_json(Path(sys.argv[1]).read_text())); p.start(); "
        "print(p.pid, flush=True); input()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    probe = int(parent.stdout.readline())
    try:
        ledger = producer_ledger.stream_path(tmp_path, PROBE_PRODUCERS)
        until(lambda: ledger.exists() and producer_ledger.recover(ledger).num_rows)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    until(lambda: not _runs(probe))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
