"""Waits count the time in which this machine keeps up."""

from __future__ import annotations

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


def test_the_wait_for_a_cpu_is_known_on_linux_only() -> None:
    assert machine.cpu_wait_s() >= 0
