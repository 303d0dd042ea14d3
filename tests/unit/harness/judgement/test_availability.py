"""Attempts of the probe, drawn on a line of seconds, and what they say about a partition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ackproof.judgement.availability import attempts, probe_metrics, steps
from ackproof.runs.verdict import FaultReport
from support.run_directories import START, at


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
    """Return attempts every tenth of a second that are answered in a hundredth."""
    ticks = range(round(begin * 10), round(end * 10))
    return [row(action, tick / 10, tick / 10 + 0.01) for tick in ticks]


def failing(action: str, begin: float, end: float) -> list[dict[str, Any]]:
    return [row(action, tick / 10, None) for tick in range(round(begin * 10), round(end * 10))]


def outages(rows: list[dict[str, Any]]) -> list[tuple[float, float]]:
    (actions,) = attempts(rows).values()
    (of_action,) = actions.values()
    return [
        ((start - START).total_seconds(), (stop - START).total_seconds())
        for start, stop in of_action.outages()
    ]


REFUSED = [row("write", tick / 10, tick / 10 + 0.01, ok=False) for tick in range(30, 50)]
SLOW = [row("read", 3 + tick, 4 + tick) for tick in range(4)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param(working("read", 0, 10), [], id="every attempt is answered"),
        pytest.param(
            working("read", 0, 3) + failing("read", 3, 5) + working("read", 5, 8),
            [(3.0, 5.0)],
            id="from the first attempt without an answer to the next answer",
        ),
        pytest.param(
            failing("read", 0, 2) + working("read", 2, 4) + failing("read", 4, 7),
            [(0.0, 2.0), (4.0, 6.9)],
            id="at the begin and the end",
        ),
        pytest.param(
            working("read", 0, 3) + failing("read", 3, 3.4) + working("read", 3.4, 8),
            [],
            id="less than half a second is no outage",
        ),
        pytest.param(
            working("read", 0, 3) + working("read", 6, 8), [], id="the probe made no attempt"
        ),
        pytest.param(
            [*working("write", 0, 3), row("write", 3, 6), *working("write", 6, 8)],
            [(3.0, 6.0)],
            id="a write waited for its ack",
        ),
        pytest.param(
            working("read", 0, 3) + SLOW + working("read", 7, 9),
            [(3.0, 7.0)],
            id="slow answers are one outage",
        ),
        pytest.param(
            working("write", 0, 3) + working("write", 5, 8) + REFUSED,
            [(3.0, 5.0)],
            id="a refusal is no ack",
        ),
    ],
)
def test_outages(rows: list[dict[str, Any]], expected: list[tuple[float, float]]) -> None:
    assert np.ravel(outages(rows)) == pytest.approx(np.ravel(expected), abs=0.02)


def test_never_available_is_a_share_of_0():
    measured = probe_metrics(attempts(failing("read", 0, 5) + working("write", 0, 5)), writes={})
    assert measured is not None
    assert (measured.read.share, measured.write.share) == (0.0, 1.0)


def test_the_worst_partition_counts():
    other = [{**row, "partition": 1} for row in working("read", 0, 10) + working("write", 0, 10)]
    bad = working("read", 0, 5) + failing("read", 5, 8) + working("read", 8, 10)
    measured = probe_metrics(attempts(other + bad + working("write", 0, 10)), writes={})
    assert measured is not None
    assert measured.read.share == pytest.approx(0.7, abs=0.01)
    assert measured.read.longest_s == pytest.approx(3.0, abs=0.02)
    assert measured.write.share == 1.0
    assert [partition.read.outages for partition in measured.partitions] == [1, 0]


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


def test_each_step_has_the_availability_at_its_end():
    # Two brokers die; writing ends with the first, reading with the second.
    reads = working("read", 0, 12) + failing("read", 12, 20) + working("read", 20, 25)
    writes = working("write", 0, 5) + failing("write", 5, 22) + working("write", 22, 25)
    found = steps(attempts(reads + writes), [fault(0, 5, 21), fault(1, 12, 18)])
    assert [step.in_force for step in found] == [[], [0], [0, 1], [0], []]
    states = [step.partitions[0] for step in found]
    assert [state.readable for state in states] == ["yes", "yes", "no", "yes", "yes"]
    assert [state.writable for state in states] == ["yes", "no", "no", "no", "yes"]
    seconds = [state.readable_s for state in states]
    assert seconds == pytest.approx([5, 7, 0, 1, 4], abs=0.2)


TOO_SHORT = working("write", 0, 3) + failing("write", 3, 3.3) + working("write", 3.3, 9)


@pytest.mark.parametrize(
    ("rows", "injected", "healed", "writable"),
    [
        pytest.param(
            [*working("write", 0, 3), row("write", 3, 9), *working("write", 9, 12)],
            *(3, 8, "no"),
            id="an answer that came after the step",
        ),
        pytest.param(
            [row for row in TOO_SHORT if not at(2.9) <= row["at"] < at(3.3) or not row["ok"]],
            *(3, 3.3, "unknown"),
            id="too short",
        ),
        pytest.param(  # attempts are given up after a second; the step ends in the middle of one
            working("write", 0, 3) + [row("write", 3 + tick, None) for tick in range(6)],
            *(3, 6.8, "no"),
            id="without an answer until the next attempt",
        ),
        pytest.param(
            working("write", 0, 3) + working("write", 8, 9), 4, 7, "unknown", id="no attempt"
        ),
    ],
)
def test_a_step_is_judged_by_the_attempts_in_it(rows, injected, healed, writable):
    found = steps(attempts(rows + working("read", 0, 12)), [fault(0, injected, healed)])
    [state] = found[1].partitions
    assert (state.readable, state.writable) == ("yes", writable)
