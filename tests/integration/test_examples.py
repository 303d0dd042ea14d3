"""The programs of `examples/` that need brokers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from integration.command import ROOT
from support.examples import example

pytestmark = pytest.mark.cluster


@pytest.mark.slow
def test_a_killed_leader_loses_nothing_with_acks_all() -> None:
    done = example("kill_a_leader.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 of 1,000 acked records are lost" in done.stdout


@pytest.mark.slow
def test_a_provoked_loss_is_found() -> None:
    done = example("lose_on_purpose.py")
    assert done.returncode == 0, done.stdout + done.stderr
    lost = re.search(r"(\d+) of 300 acked records are lost", done.stdout)
    assert lost is not None, done.stdout
    # Some of the first hundred may not have been fetched when replication was cut.
    assert 100 <= int(lost[1]) < 300


@pytest.mark.slow
def test_a_scenario_is_run_and_its_ledger_read(tmp_path: Path) -> None:
    scenario = str(ROOT / "tests" / "user_project" / "orders.chaos.yaml")
    done = example("run_scenario.py", scenario, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "orders: holds" in done.stdout
    read = example("read_ledger.py", str(tmp_path / "runs" / "latest"))
    assert read.returncode == 0, read.stderr
    assert "acked: " in read.stdout
    assert "longest time without an ack" in read.stdout
