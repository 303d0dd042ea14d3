"""Runs in which a fault did not work as planned are inconclusive, never `holds`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from docker import DockerClient
from rich.console import Console

from ackproof.cluster.admin import Admin
from ackproof.cluster.interfaces import NodeProcesses
from ackproof.execution import final_phase, runner
from ackproof.progress import ConsoleReporter
from ackproof.runs.verdict import Verdict, Word
from ackproof.scenario.loader import load
from waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow]

SCENARIO = """
version: 1
name: small
topics:
  orders: {partitions: 1, settings: {min.insync.replicas: 2}}
workload:
  topic: orders
  rate: 500/s
  seconds: 15s
  tail: 100
  settings: {acks: all, enable.idempotence: true, delivery.timeout.ms: 20000}
faults:
  - fault: kill
    target: followers of orders-0
    when: 200 acked
    heal_after: 2s
"""


def judged(engine: DockerClient, tmp_path: Path, scenario: str = SCENARIO) -> Verdict:
    path = tmp_path / "small.yaml"
    path.write_text(scenario)
    reporter = ConsoleReporter(Console(stderr=True))
    _, verdict = runner.run(load(path)[0], out=tmp_path / "runs", client=engine, reporter=reporter)
    return verdict


def test_an_unverified_fault_makes_a_run_inconclusive(
    engine: DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NodeProcesses, "kill", lambda self, node: None)
    verdict = judged(engine, tmp_path)
    assert verdict.verdict is Word.INCONCLUSIVE
    assert "still runs after SIGKILL" in verdict.reason
    assert [fault.verified for fault in verdict.faults] == [False]


def test_a_duplicate_behind_the_closing_record_makes_a_run_inconclusive(
    engine: DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A send that a broker or the proxy had kept arrives when its partition has been read."""
    written = Admin.write_end_markers

    def write_and_repeat_a_record(
        self: Admin, partitions: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], int]:
        ends = written(self, partitions)
        send(self._bootstrap_servers, first_record(self._bootstrap_servers))
        return ends

    monkeypatch.setattr(Admin, "write_end_markers", write_and_repeat_a_record)
    verdict = judged(engine, tmp_path, SCENARIO[: SCENARIO.index("faults:")])
    assert verdict.verdict is Word.INCONCLUSIVE
    assert "not read to its end: 1 offsets after the closing record" in verdict.reason
    assert (verdict.observed["duplicated"], verdict.observed["lost"]) == (0, 0)


def first_record(bootstrap: str) -> bytes:
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "first", "log_level": 0})
    reader.assign([TopicPartition("orders", 0, 0)])
    try:
        record = until(lambda: reader.poll(1))
    finally:
        reader.close()
    assert record.error() is None
    value = record.value()
    assert isinstance(value, bytes)
    return value


def send(bootstrap: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    producer.produce("orders", value, partition=0)
    assert producer.flush(60) == 0


def test_a_broker_that_never_rejoins_makes_a_run_inconclusive(
    engine: DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = NodeProcesses.start
    dead: list[int] = []

    def start_all_but_the_first(self: NodeProcesses, broker: int) -> None:
        dead[:] = dead or [broker]
        if broker not in dead:
            start(self, broker)

    monkeypatch.setattr(NodeProcesses, "start", start_all_but_the_first)
    monkeypatch.setattr(final_phase, "_RECOVER_S", 5.0)
    verdict = judged(engine, tmp_path)
    assert verdict.verdict is Word.INCONCLUSIVE
    assert "still waiting for recovery from kill" in verdict.reason
    assert verdict.observed["acked"] > 0
    assert verdict.observed["lost"] == 0


def test_a_fault_that_never_began_makes_a_run_inconclusive(
    engine: DockerClient, tmp_path: Path
) -> None:
    never = SCENARIO.replace("when: 200 acked", "when: isr of orders-0 == 1")
    verdict = judged(engine, tmp_path, never.replace("seconds: 15s", "seconds: 3s"))
    assert verdict.verdict is Word.INCONCLUSIVE
    assert "never began" in verdict.reason
