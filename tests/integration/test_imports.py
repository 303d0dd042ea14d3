"""No two threads of a command import one package at the same time.

pyspark, numpy and pandas have circular imports. Two threads that import such a package at once may
see a module that is half initialized: `check` of an acked log failed in 5 of 14 starts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ackproof.cluster.booted import KafkaCluster
from integration import command
from integration.sending import logged
from spark_histories import parse
from support import import_threads
from support.run_directories import store

pytestmark = pytest.mark.spark

HISTORY = {
    "ops": [
        {
            "proc": 0,
            "type": "ok",
            "f": "send",
            "mops": [{"send": {"key": "x", "offset": 0, "value": "a"}}],
        },
        {"proc": 1, "type": "ok", "f": "poll", "mops": [{"poll": {"x": [[0, "a"]]}}]},
    ]
}
SCENARIO = """\
version: 1
name: imports
cluster: {brokers: 1}
topics:
  orders: {replication_factor: 1}
workload: {topic: orders, records: 500, settings: {acks: all, enable.idempotence: true}}
matrix:
  one: {}
  other: {workload: {settings: {acks: 1, enable.idempotence: false}}}
"""


def imported_side_by_side(folder: Path, *arguments: str | Path) -> str:
    """Run the command, which must succeed, and return what two threads imported at once."""
    out = folder / "imports"
    done = subprocess.run(
        [sys.executable, import_threads.__file__, out, *arguments],
        cwd=command.ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out.read_text()


PAIR = """\
import importlib, sys, threading
from support import import_threads

barrier = threading.Barrier(2)


def imports(name):
    barrier.wait(60)
    importlib.import_module(name)
    barrier.wait(60)


sys.meta_path.insert(0, import_threads.Recorder())
threading.Thread(target=imports, args=("pair.one",), name="other").start()
imports("pair.two")
print(*import_threads.side_by_side())
"""


def test_the_recorder_sees_two_threads_in_one_package(tmp_path: Path) -> None:
    """The positive control."""
    (tmp_path / "pair").mkdir()
    for module in ("one", "two"):
        (tmp_path / "pair" / f"{module}.py").touch()
    done = subprocess.run(
        [sys.executable, "-c", PAIR],
        cwd=command.ROOT / "tests",
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "pair.two" in json.loads(done.stdout)["MainThread"], done.stderr


@pytest.mark.slow
def test_check_of_a_run(tmp_path: Path) -> None:
    history = {"sends": ["0/0 to 0: acked at 0"], "log": ["0@0: 0/0"], "ends": ["0: 0-1"]}
    assert not imported_side_by_side(tmp_path, "check", store(tmp_path / "run", parse(history)))


@pytest.mark.slow
def test_check_of_a_history(tmp_path: Path) -> None:
    history = tmp_path / "history.json"
    history.write_text(json.dumps(HISTORY))
    assert not imported_side_by_side(tmp_path, "check", history)


@pytest.mark.cluster
@pytest.mark.slow
def test_check_of_an_acked_log(cluster: KafkaCluster, tmp_path: Path) -> None:
    log = tmp_path / "acked.jsonl"
    logged(cluster.bootstrap_servers, log, 0, 20)
    assert not imported_side_by_side(
        tmp_path,
        *("check", log, "--from-cluster", cluster.bootstrap_servers, "--out", tmp_path),
    )


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("name", ["run", "compare"])
def test_run_and_compare(tmp_path: Path, name: str) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text(SCENARIO)
    more = ["--trials", "2"] if name == "compare" else []
    assert not imported_side_by_side(tmp_path, name, scenario, "--out", tmp_path / "runs", *more)
