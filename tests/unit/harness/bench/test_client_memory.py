"""The benchmark of a producer's memory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ackproof.bench.client_memory import WARM, ClientMemory, _Watch
from ackproof.clients.shared_page import Progress


class Sender:
    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.acked = 0

    def progress(self) -> Progress:
        return Progress(sent=self.acked, acked=self.acked)


def test_memory_is_recorded_separately_before_and_after_warm_up():
    sender = Sender(os.getpid())
    watch = _Watch(sender)
    sender.acked = WARM
    assert watch.turn() is False
    warm = watch.warm
    assert warm > 1 << 20
    assert watch.later == 0
    sender.acked = WARM + 1
    watch.turn()
    assert watch.later > 1 << 20
    assert watch.warm == warm


def test_sampling_ends_with_the_producer():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert _Watch(Sender(ended.pid)).turn() is True


def test_growth_is_the_later_peak_divided_by_the_early_one():
    found = ClientMemory(records=1, size=32, rate=1.0, warm=100, later=110)
    assert found.growth == pytest.approx(1.1)
