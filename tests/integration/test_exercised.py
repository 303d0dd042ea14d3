"""A fault that the clients did not meet makes a run inconclusive; one that they met does not.

Each run has faults of both kinds, and its verdict names only those that were not met.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from docker import DockerClient
from rich.console import Console

from ackproof.execution import runner
from ackproof.progress import ConsoleReporter
from ackproof.runs.verdict import Word
from ackproof.scenario.loader import load

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow]

#: Sends go to partition 0 only. The offsets of billing are in partition 1 of their topic.
MOVED = """
version: 1
name: moved
topics: {orders: {assignment: [[1, 2, 3], [1, 2, 3]], settings: {min.insync.replicas: 2}}}
workload:
  topic: orders
  partition: 0
  rate: 500/s
  tail: 3000
  settings: {acks: all, enable.idempotence: true}
  consumers: {billing: {}}
faults:
  - {fault: reassign, topic: orders, partition: 0, to: [2, 3, 1], when: 1000 acked}
  - {fault: reassign, topic: orders, partition: 1, to: [2, 3, 1], when: 1000 acked}
  - {fault: reassign, topic: __consumer_offsets, partition: 0, to: [1, 2], when: 1000 acked}
  - {fault: reassign, topic: __consumer_offsets, partition: 1, to: [1, 2], when: 1000 acked}
expect: {loss: none}
"""

#: Almost all sends are in transactions until their producer ends; the other one is slow.
OPEN = """
version: 1
name: open
topics:
  orders: {partitions: 1, settings: {min.insync.replicas: 2}}
  clicks: {partitions: 1, settings: {min.insync.replicas: 2}}
workload:
  topic: orders
  rate: 1000/s
  records: 3000
  tail: 100
  settings: {acks: all, enable.idempotence: true}
  transactions: {size: 100}
  beside:
    clicks: {rate: 20/s, settings: {acks: all, enable.idempotence: true}}
faults:
  - {fault: pause, target: 3, when: 400 acked, heal_after: 1s}
  - {fault: pause, target: 2, when: 3500 acked, heal_after: 1s}
expect: {loss: none}
"""


@pytest.mark.parametrize(
    ("scenario", "unmet"),
    [
        (
            MOVED,
            [
                "reassign of orders-1: no send was acked in orders-1 afterwards",
                "reassign of __consumer_offsets-0: no offset was committed in "
                "__consumer_offsets-0 afterwards",
            ],
        ),
        (OPEN, ["pause of broker 2: no transaction was open while it held"]),
    ],
)
def test_only_the_faults_that_no_client_met_are_named(
    engine: DockerClient, tmp_path: Path, scenario: str, unmet: list[str]
) -> None:
    path = tmp_path / "exercised.yaml"
    path.write_text(scenario)
    _, verdict = runner.run(
        load(path)[0],
        out=tmp_path / "runs",
        client=engine,
        reporter=ConsoleReporter(Console(stderr=True)),
    )
    assert verdict.verdict is Word.INCONCLUSIVE
    assert verdict.reason.partition("; not observed")[0] == "; ".join(unmet)
