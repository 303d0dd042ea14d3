"""What looks like a loss and is none, on real brokers: the run says why it cannot tell.

The other controls are cases of the catalogue that end with a verdict: B19, B27, B29 and B30, and
B28 for retention and compaction, which ackproof's own settings keep away from a topic, or which the
scenario expects.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from docker import DockerClient
from rich.console import Console

from ackproof.errors import ScenarioError
from ackproof.execution import runner
from ackproof.progress import ConsoleReporter
from ackproof.runs.verdict import Word
from ackproof.scenario.loader import load

SCENARIO = """
version: 1
name: head-is-gone
cluster:
  settings:
    log.retention.check.interval.ms: 1000
    log.initial.task.delay.ms: 1000
topics:
  orders:
    assignment: [[1, 2, 3]]
    settings: {min.insync.replicas: 2, retention.ms: 1000, segment.bytes: 1048576,
               file.delete.delay.ms: 1000}
workload:
  topic: orders
  rate: 2000/s
  size: 1000
  tail: 4000
  settings: {acks: all, enable.idempotence: true}
faults:
  - {fault: kill, target: leader of orders-0, when: [8000 acked, isr of orders-0 == 3],
     heal_when: leader of orders-0 changed}
expect: {loss: any}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "head-is-gone.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.mark.cluster
@pytest.mark.slow
def test_what_retention_removed_is_not_lost_and_the_run_is_inconclusive(
    engine: DockerClient, scenario: Path
) -> None:
    reporter = ConsoleReporter(Console(stderr=True))
    (configured,) = load(scenario)
    out = scenario.parent / "runs"
    _, verdict = runner.run(configured, out=out, client=engine, reporter=reporter)
    assert verdict.observed["acked"] > 8000
    assert verdict.observed["lost"] == 0
    assert verdict.verdict is Word.INCONCLUSIVE
    assert "retention or a fault removed the records before it" in verdict.reason


@pytest.mark.parametrize(
    ("setting", "why"),
    [("retention.ms: 1000", "may remove acked records"), ("cleanup.policy: compact", "compaction")],
)
def test_a_topic_that_must_lose_nothing_removes_nothing(
    scenario: Path, setting: str, why: str
) -> None:
    text = SCENARIO.replace("loss: any", "loss: none").replace("retention.ms: 1000", setting)
    scenario.write_text(text)
    with pytest.raises(ScenarioError, match=why):
        load(scenario)
