"""Attempts of the probe, drawn on a line of seconds, and what they say about a partition."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ackproof.judgement.availability import attempts, probe_metrics, steps
from ackproof.runs.verdict import FaultReport

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def row(action: str, begun: float, answered: float | None, *, ok: bool = True) -> dict[str, Any]:
    return {
        "topic": "orders",
        "partition": 0,
        "action": action,
        "at": at(begun),
        "answered_at": None if answered is None else at(answered),
        "ok": ok and answered is not None,
    }


def working(action: str, begin: float, end: float) -> list[dict[str, Any]]:
    """Attempts every tenth of a second that are answered in a hundredth."""
    ticks = range(round(begin * 10), round(end * 10))
    return [row(action, tick / 10, tick / 10 + 0.01) for tick in ticks]


def failing(action: str, begin: float, end: float) -> list[dict[str, Any]]:
    return [row(action, tick / 10, None) for tick in range(round(begin * 10), round(end * 10))]


def outages(rows: list[dict[str, Any]]) -> list[tuple[float, float]]:
    (actions,) = attempts(rows).values()
    (one,) = actions.values()
    return [
        (
            pytest.approx((start - BEGAN).total_seconds(), abs=0.02),
            pytest.approx((stop - BEGAN).total_seconds(), abs=0.02),
        )
        for start, stop in one.outages()
    ]


def test_answers_all_the_time_are_no_outage():
    assert outages(working("read", 0, 10)) == []


def test_an_outage_is_from_the_first_attempt_without_an_answer_to_the_next_answer():
    rows = working("read", 0, 3) + failing("read", 3, 5) + working("read", 5, 8)
    assert outages(rows) == [(3.0, 5.0)]


def test_an_outage_at_the_begin_or_the_end_counts():
    rows = failing("read", 0, 2) + working("read", 2, 4) + failing("read", 4, 7)
    assert outages(rows) == [(0.0, 2.0), (4.0, 6.9)]


def test_half_a_second_is_no_outage():
    rows = working("read", 0, 3) + failing("read", 3, 3.4) + working("read", 3.4, 8)
    assert outages(rows) == []


def test_a_pause_of_the_probe_itself_is_no_outage():
    assert outages(working("read", 0, 3) + working("read", 6, 8)) == []


def test_a_write_that_waited_for_its_ack_is_one():
    rows = [*working("write", 0, 3), row("write", 3, 6), *working("write", 6, 8)]
    assert outages(rows) == [(3.0, 6.0)]


def test_answers_that_all_take_too_long_are_one_outage():
    slow = [row("read", 3 + tick, 4 + tick) for tick in range(4)]
    assert outages(working("read", 0, 3) + slow + working("read", 7, 9)) == [(3.0, 7.0)]


def test_an_answered_refusal_is_no_ack():
    rows = working("write", 0, 3) + working("write", 5, 8)
    rows += [row("write", tick / 10, tick / 10 + 0.01, ok=False) for tick in range(30, 50)]
    assert outages(rows) == [(3.0, 5.0)]


def test_never_available_is_a_share_of_0():
    measured = probe_metrics(attempts(failing("read", 0, 5) + working("write", 0, 5)), writes={})
    assert measured is not None
    assert (measured.read.share, measured.write.share) == (0.0, 1.0)


def test_the_worst_partition_counts():
    other = [{**one, "partition": 1} for one in working("read", 0, 10) + working("write", 0, 10)]
    bad = working("read", 0, 5) + failing("read", 5, 8) + working("read", 8, 10)
    measured = probe_metrics(attempts(other + bad + working("write", 0, 10)), writes={})
    assert measured is not None
    assert measured.read.share == pytest.approx(0.7, abs=0.01)
    assert measured.read.longest_s == pytest.approx(3.0, abs=0.02)
    assert measured.write.share == 1.0
    assert [one.read.outages for one in measured.partitions] == [1, 0]


def test_without_a_probe_nothing_was_measured():
    assert probe_metrics(attempts([]), writes={}) is None
    assert steps(attempts([]), []) == []


def fault(window: int, injected: float, healed: float | None) -> FaultReport:
    return FaultReport(
        window=window,
        fault="kill",
        target="1",
        nodes=[1],
        trigger="",
        injected_at=at(injected),
        verified_at=at(injected),
        healed_at=None if healed is None else at(healed),
        recovered_at=None,
        verified=True,
        evidence="",
    )


def test_each_step_says_what_could_be_done_at_its_end():
    # Two brokers die; writing ends with the first, reading with the second.
    reads = working("read", 0, 12) + failing("read", 12, 20) + working("read", 20, 25)
    writes = working("write", 0, 5) + failing("write", 5, 22) + working("write", 22, 25)
    found = steps(attempts(reads + writes), [fault(0, 5, 21), fault(1, 12, 18)])
    assert [one.in_force for one in found] == [[], [0], [0, 1], [0], []]
    told = [(one.partitions[0].readable, one.partitions[0].writable) for one in found]
    assert told == [("yes", "yes"), ("yes", "no"), ("no", "no"), ("yes", "no"), ("yes", "yes")]
    seconds = [one.partitions[0].readable_s for one in found]
    assert seconds == pytest.approx([5, 7, 0, 1, 4], abs=0.2)


def test_an_answer_that_came_after_the_step_does_not_count_in_it():
    writes = [*working("write", 0, 3), row("write", 3, 9), *working("write", 9, 12)]
    found = steps(attempts(writes + working("read", 0, 12)), [fault(0, 3, 8)])
    assert [one.partitions[0].writable for one in found] == ["yes", "no", "yes"]


def test_a_step_too_short_to_tell_is_unknown():
    rows = working("write", 0, 3) + failing("write", 3, 3.3) + working("write", 3.3, 9)
    rows = [one for one in rows if not at(2.9) <= one["at"] < at(3.3) or not one["ok"]]
    found = steps(attempts(rows + working("read", 0, 9)), [fault(0, 3, 3.3)])
    assert found[1].partitions[0].writable == "unknown"


def test_an_attempt_without_an_answer_lasts_until_the_next_one():
    # Reads are given up after a second; the step ends in the middle of one.
    rows = working("read", 0, 3) + [row("read", 3 + tick, None) for tick in range(6)]
    found = steps(attempts(rows + working("write", 0, 9)), [fault(0, 3, 6.8)])
    assert found[1].partitions[0].readable == "no"


def test_a_step_in_which_the_probe_made_no_attempt_is_unknown():
    rows = working("write", 0, 3) + working("write", 8, 9) + working("read", 0, 9)
    found = steps(attempts(rows), [fault(0, 4, 7)])
    assert found[1].partitions[0].writable == "unknown"
    assert found[1].partitions[0].readable == "yes"
