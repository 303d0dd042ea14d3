"""The CPU time of tests, as `ci/test` prints it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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


def test_a_thread_that_ends_hides_no_child_of_the_others(tmp_path: Path) -> None:
    """Else the time of a running JVM vanishes for a moment, and stands at the next file."""
    for thread, listed in (("7", "8 9 "), ("10", None), ("11", "12 ")):
        (tmp_path / "7" / "task" / thread).mkdir(parents=True)
        if listed is not None:
            (tmp_path / "7" / "task" / thread / "children").write_text(listed)
    assert sorted(costs.children("7", tmp_path), key=int) == ["8", "9", "12"]
    assert costs.children("13", tmp_path) == []


def test_the_summary_adds_up_files_and_processes() -> None:
    printed = costs.Costs()
    lines: list[str] = []
    terminal: Any = SimpleNamespace(section=lines.append, write_line=lines.append)
    for test, worker, seconds in (("a::x", "gw0", 2.0), ("a::y", "gw1", 3.0), ("b::z", "gw1", 9.0)):
        report: Any = SimpleNamespace(nodeid=f"test_{test}", worker_id=worker, duration=1.0)
        first = test == "a::x"
        report.user_properties = [("another", "property"), ("cpu_s", seconds)]
        report.user_properties += [("collection_cpu_s", 4.0)] if first else []
        printed.pytest_runtest_logreport(report)
    printed.pytest_terminal_summary(terminal)
    assert lines[1:6] == [
        "    9.0 test_b",
        "    5.0 test_a",
        "    4.0 collection",
        "gw0: 6 s of CPU, tests ran for 1 s",
        "gw1: 12 s of CPU, tests ran for 2 s",
    ]
