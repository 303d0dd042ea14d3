"""Waits count the time in which this machine keeps up."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof import machine
from ackproof.waiting import last_result


@pytest.mark.parametrize("waited", [[0, 0], [0, 1000, 1000, 0]])
def test_a_wait_does_not_end_while_processes_wait_for_a_cpu(
    waited: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first value is that of the start; each look takes another one."""
    values = iter(waited)
    monkeypatch.setattr(machine, "cpu_wait_s", lambda: float(next(values)))
    looks: list[bool] = []
    last_result(lambda: looks.append(False), lambda _: False, within_s=0)
    assert len(looks) == len(waited) - 1


@pytest.mark.parametrize(
    ("pressure", "seconds"),
    [("some avg10=99.00 avg300=1.00 total=2500000\nfull avg10=0.00 total=7\n", 2.5), ("", 0.0)],
)
def test_the_wait_for_a_cpu_is_that_of_some_process(
    pressure: str, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system that is not Linux has no such file: then no wait is known."""
    if pressure:
        (tmp_path / "cpu").write_text(pressure)
    monkeypatch.setattr(machine, "_CPU_PRESSURE", tmp_path / "cpu")
    assert machine.cpu_wait_s() == seconds
