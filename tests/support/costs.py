"""A plugin of pytest that prints which files of tests cost most CPU time, by process, too.

`conftest.py` registers it where tests run in several processes, as in `ci/test`. Durations on a
busy machine say little; CPU time says what a change costs. A file's time is that of pytest and of
its children, such as clients and Spark's JVM, without containers.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")
#: The user property of a report with the CPU seconds until then of the process that ran the test.
_CPU = "cpu_s"
#: Files that are printed.
_MOST = 40

#: Where Linux counts the CPU time of all of Docker's containers, in nanoseconds (cgroups 1).
_CONTAINERS = Path("/sys/fs/cgroup/cpuacct/docker/cpuacct.usage")

_last = 0.0
_files: Counter[str] = Counter()
_processes: Counter[str] = Counter()
_busy: Counter[str] = Counter()


def _children(process: str) -> list[str]:
    """Return the running children of a process."""
    try:
        tasks = list(Path("/proc", process, "task").iterdir())
        return [child for task in tasks for child in (task / "children").read_text().split()]
    except OSError:  # it has ended, or this kernel does not tell
        return []


def cpu_s() -> float:
    """Return the CPU seconds of this process, of its running descendants, and of ended ones."""
    own = os.times()
    total = own.user + own.system + own.children_user + own.children_system
    waiting = _children(str(os.getpid()))
    while waiting:
        process = waiting.pop()
        try:
            stat = Path("/proc", process, "stat").read_text()
        except OSError:
            continue
        total += sum(map(int, stat.rpartition(")")[2].split()[11:15])) / _TICKS
        waiting += _children(process)
    return total


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    global _last
    before, _last = _last, cpu_s()
    # The first test of a process has the collection, too.
    report.user_properties = [*report.user_properties, (_CPU, _last - before)]
    return report


def _containers_s() -> float:
    """Return the CPU seconds of Docker's containers since it began; 0.0 if they are not counted."""
    try:
        return int(_CONTAINERS.read_text()) / 1e9
    except OSError:
        return 0.0


_containers_before = _containers_s()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    process = getattr(report, "worker_id", "this process")
    for name, value in report.user_properties:
        if name == _CPU:
            assert isinstance(value, float)
            _files[report.nodeid.partition("::")[0]] += value
            _processes[process] += value
    _busy[process] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section(f"CPU seconds of the {_MOST} most expensive files, without containers")
    for file, seconds in _files.most_common(_MOST):
        terminalreporter.write_line(f"{seconds:7.1f} {file}")
    for process, seconds in sorted(_processes.items()):
        terminalreporter.write_line(
            f"{process}: {seconds:.0f} s of CPU, tests ran for {_busy[process]:.0f} s"
        )
    containers = _containers_s() - _containers_before
    terminalreporter.write_line(f"containers of this machine: {containers:.0f} s of CPU")
