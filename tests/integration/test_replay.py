"""Replay and shrink on real brokers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from docker import DockerClient

from ackproof.cluster.pool import ClusterPool
from ackproof.execution.runner import run
from ackproof.reproduction.recorded_run import recorded_run
from ackproof.reproduction.replay import compare_runs
from ackproof.runs.directory import read_record
from ackproof.scenario.loader import load
from integration.command import ROOT, ackproof, printed
from support.recorded_schedules import Quiet

pytestmark = pytest.mark.cluster

TWELVE = Path(__file__).with_name("twelve_steps.yaml")

SCENARIO = """\
version: 1
name: replayed
seed: 3
topics: {orders: {}}
workload:
  topic: orders
  rate: 500/s
  tail: 100
  settings: {acks: all, enable.idempotence: true}
faults:
  - random: [{fault: isolate_replication, target: any broker}]
    for: 4s
    lasting: [200ms, 1s]
    stable: [200ms, 1s]
"""


@pytest.mark.slow  # two runs, one after the other
def test_a_random_schedule_is_repeated_at_the_same_acks(
    engine: DockerClient, tmp_path: Path
) -> None:
    path = tmp_path / "replayed.yaml"
    path.write_text(SCENARIO)
    [configured] = load(path)
    with ClusterPool(engine, reuse=True) as pool:
        then, _ = run(configured, out=tmp_path, client=engine, reporter=Quiet(), pool=pool)
        again = recorded_run(then)
        now, verdict = run(
            again.configured,
            out=tmp_path,
            client=engine,
            reporter=Quiet(),
            pool=pool,
            replays=then.name,
        )
    found = compare_runs(then, now, notes=again.notes)
    assert found.same, (verdict.reason, found)
    assert read_record(now).replays == then.name
    assert len(found.steps) >= 2
    for step in found.steps:
        assert step.now_nodes == step.then_nodes
        assert step.now_acked is not None
        assert step.now_acked >= step.then_acked


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_twelve_steps_are_reduced_to_the_two_that_are_needed(tmp_path: Path) -> None:
    first = ackproof("run", TWELVE, "--out", tmp_path, "--json")
    assert first.returncode == 1, first.stderr
    lost = printed(first)
    assert lost["observed"]["lost"] > 0
    assert len(lost["faults"]) == 12
    line = ["shrink", lost["run_id"], "--out", str(tmp_path), "--json"]
    shrunk = subprocess.run(
        [str(Path(sys.executable).with_name("ackproof")), *line],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert shrunk.returncode == 0, shrunk.stderr
    found = json.loads(shrunk.stdout)
    assert found["kept"] == ["step-6", "step-8"]
    assert found["excluded"] > 0
    minimal = Path(found["directory"], found["minimal"])
    assert ackproof("validate", minimal).returncode == 0
    assert found["losing"] == found["trials"] == 3
    again = ackproof("run", minimal, "--out", tmp_path, "--json")
    assert again.returncode == 1, again.stderr
    assert printed(again)["observed"]["lost"] > 0
