from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ackproof.observation.clocks import ahead_of_engine, engine_clock
from support.fake_engine import FakeEngine

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_the_line_with_the_smallest_delay_gives_the_offset() -> None:
    lines = [
        "2026-01-01T12:00:00.090000000Z [2026-01-01T12:00:00,000] INFO slow",
        "2026-01-01T12:00:01.000500000Z [2026-01-01T12:00:01,000] INFO quick",
        "2026-01-01T12:00:01.000600000Z \tat a.stack.trace",
    ]
    assert ahead_of_engine(lines) == timedelta(microseconds=-500)


@pytest.mark.parametrize(
    ("logged", "hours"), [("2026-01-01 14:00:00,000", 2), ("2026-01-01 09:00:00,000", -3)]
)
def test_kafka_3s_time_format_is_read(logged: str, hours: int) -> None:
    lines = [f"2026-01-01T12:00:00.1Z [{logged}] INFO x"]
    assert ahead_of_engine(lines) == timedelta(hours=hours, milliseconds=-100)


def test_lines_before_the_clock_jumped_are_not_used() -> None:
    lines = [
        "2026-01-01T12:00:00.100000000Z [2026-01-01T13:30:00,000] INFO ahead",
        "2026-01-01T12:00:01.300000000Z [2026-01-01T12:00:01,000] INFO right again",
        "2026-01-01T12:00:02.100000000Z [2026-01-01T12:00:01,000] INFO slow",
    ]
    assert ahead_of_engine(lines) == timedelta(milliseconds=-300)


def test_lines_without_a_time_give_no_offset() -> None:
    assert ahead_of_engine(["2026-01-01T12:00:00.1Z Exception in thread main"]) is None


def test_the_uncertainty_of_the_engine_clock_is_half_the_round_trip() -> None:
    times = iter([NOON, NOON + timedelta(milliseconds=20)])
    client: Any = FakeEngine(info={"SystemTime": "2026-01-01T12:00:05.010000123Z"})
    clock = engine_clock(client, lambda: next(times))
    assert (clock.of, clock.offset_ms, clock.give_or_take_ms) == ("engine", 5000, 10)
