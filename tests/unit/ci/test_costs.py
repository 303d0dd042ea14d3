"""The CPU time of tests, as `ci/test` prints it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from support import costs

BUSY = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\ninput()"


def test_a_child_that_still_runs_is_counted() -> None:
    before = costs.cpu_s()
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "done\n"
        assert costs.cpu_s() - before > 0.2
        child.communicate("\n")


def test_the_summary_adds_up_files_and_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_files", "_processes", "_busy"):
        monkeypatch.setattr(costs, name, Counter())
    lines: list[str] = []
    terminal: Any = SimpleNamespace(section=lines.append, write_line=lines.append)
    for test, worker, seconds in (("a::x", "gw0", 2.0), ("a::y", "gw1", 3.0), ("b::z", "gw1", 9.0)):
        report: Any = SimpleNamespace(nodeid=f"test_{test}", worker_id=worker, duration=1.0)
        report.user_properties = [("another", "property"), ("cpu_s", seconds)]
        costs.pytest_runtest_logreport(report)
    costs.pytest_terminal_summary(terminal)
    assert lines[1:5] == [
        "    9.0 test_b",
        "    5.0 test_a",
        "gw0: 2 s of CPU, tests ran for 1 s",
        "gw1: 12 s of CPU, tests ran for 2 s",
    ]
