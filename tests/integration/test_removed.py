"""Records that real brokers remove by retention and compaction, as predicted.

The load, the brokers and their checks are the same; the settings of the topic and the timestamps
differ. Each kind of removal has an arm in which it must not happen.
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

SCENARIO = """
version: 1
name: removed
cluster:
  settings: {log.retention.check.interval.ms: 1000, log.initial.task.delay.ms: 1000,
             log.cleaner.backoff.ms: 500, log.cleaner.min.cleanable.ratio: 0.01}
topics:
  orders:
    assignment: [[1, 2, 3]]
    settings: {min.insync.replicas: 2, segment.bytes: 1048576, file.delete.delay.ms: 1000, SETTINGS}
workload:
  topic: orders
  rate: 1500/s
  size: 1000
  tail: 25000
  keys: 10
  settings: {acks: all, enable.idempotence: true}
faults: [FAULTS]
expect: {loss: any, duplicates: none, removed: REMOVED}
"""

WEEK = "retention.ms: 604800000"
#: Ten days back, from before the first send on.
OLD = "{fault: skew_timestamps, by: 864000s, heal_after: 10s}"

#: Settings, faults, the predicted word, and whether records are removed.
CASES = {
    "old timestamps": (WEEK, OLD, "possible", True),
    "old timestamps, LogAppendTime": (
        f"{WEEK}, message.timestamp.type: LogAppendTime",
        OLD,
        "impossible",
        False,
    ),
    "short retention": ("retention.ms: 1000", "", "certain", True),
    "small partition": ("retention.bytes: 1048576", "", "certain", True),
    "partition that is large enough": ("retention.bytes: 1073741824", "", "impossible", False),
    "compact and delete": (
        'cleanup.policy: "compact,delete", retention.ms: 1000',
        "",
        "certain",
        True,
    ),
    "compact only": ("cleanup.policy: compact, retention.ms: 1000", "", "possible", True),
}


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_brokers_remove_records_as_predicted(
    engine: DockerClient, tmp_path: Path, name: str
) -> None:
    settings, faults, predicted, removed = CASES[name]
    path = tmp_path / "removed.yaml"
    text = SCENARIO.replace("SETTINGS", settings).replace("FAULTS", faults)
    text = text.replace("REMOVED", "some" if removed else "none")
    path.write_text(text)
    (configured,) = load(path)
    reporter = ConsoleReporter(Console(stderr=True))
    _, verdict = runner.run(configured, out=tmp_path / "runs", client=engine, reporter=reporter)
    assert verdict.predicted["removed"] == predicted
    assert (verdict.observed["removed"] > 1000) is removed
    assert (verdict.observed["lost"], verdict.findings) == (0, [])
    assert verdict.verdict is Word.HOLDS, verdict.reason
