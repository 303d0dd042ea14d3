"""A plugin of pytest that prints which files of tests cost most CPU time, by process, too.

`conftest.py` registers it where tests run in several processes, as in `ci/test`. Durations on a
busy machine say little; CPU time says what a change costs. A file's time is that of pytest and of
its children, such as clients and Spark's JVM, without containers.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")
#: The user properties of a file's last report: its CPU seconds, and those of the collection, which
#: are 0.0 but in a process's first file.
_CPU, _COLLECTION = "cpu_s", "collection_cpu_s"
#: Files that are printed.
_MOST = 40

#: Where Linux counts the CPU time of all of Docker's containers, in nanoseconds (cgroups 1).
_CONTAINERS = Path("/sys/fs/cgroup/cpuacct/docker/cpuacct.usage")


def children(process: str, proc: Path = Path("/proc")) -> list[str]:
    """Return the running children of a process."""
    found: list[str] = []
    # A thread that ends meanwhile, or a kernel that does not tell.
    with suppress(OSError):
        for task in (proc / process / "task").iterdir():
            with suppress(OSError):
                found += (task / "children").read_text().split()
    return found


def cpu_s() -> float:
    """Return the CPU seconds of this process, of its running descendants, and of ended ones."""
    own = os.times()
    total = own.user + own.system + own.children_user + own.children_system
    waiting = children(str(os.getpid()))
    while waiting:
        process = waiting.pop()
        try:
            stat = Path("/proc", process, "stat").read_text()
        except OSError:
            continue
        total += sum(map(int, stat.rpartition(")")[2].split()[11:15])) / _TICKS
        waiting += children(process)
    return total


def _containers_s() -> float:
    """Return the CPU seconds of Docker's containers since it began; 0.0 if they are not counted."""
    try:
        return int(_CONTAINERS.read_text()) / 1e9
    except OSError:
        return 0.0


class Costs:
    """Measures in the processes that run tests, and prints in the one that started them."""

    def __init__(self) -> None:
        self._last = self._collection = 0.0
        self._file_ends = False
        self._files: Counter[str] = Counter()
        self._processes: Counter[str] = Counter()
        self._busy: Counter[str] = Counter()
        self._containers_before = _containers_s()

    def pytest_collection_finish(self) -> None:
        self._collection = self._last = cpu_s()

    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        self._file_ends = nextitem is None or nextitem.path != item.path

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        # After each of thousands of tests, asking the kernel would itself take a minute.
        if call.when == "teardown" and self._file_ends:
            before, self._last = self._last, cpu_s()
            report.user_properties = [
                *report.user_properties,
                (_CPU, self._last - before),
                (_COLLECTION, self._collection),
            ]
            self._collection = 0.0
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        process = getattr(report, "worker_id", "this process")
        for name, value in report.user_properties:
            if name in (_CPU, _COLLECTION):
                assert isinstance(value, float)
                file = report.nodeid.partition("::")[0] if name == _CPU else "collection"
                self._files[file] += value
                self._processes[process] += value
        self._busy[process] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(
            f"CPU seconds of the {_MOST} most expensive files, without containers"
        )
        for file, seconds in self._files.most_common(_MOST):
            terminalreporter.write_line(f"{seconds:7.1f} {file}")
        for process, seconds in sorted(self._processes.items()):
            terminalreporter.write_line(
                f"{process}: {seconds:.0f} s of CPU, tests ran for {self._busy[process]:.0f} s"
            )
        containers = _containers_s() - self._containers_before
        terminalreporter.write_line(f"containers of this machine: {containers:.0f} s of CPU")
