"""How often a schedule begins each fault is known before it runs."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackproof_faults import times_begun
from support.recorded_schedules import World, names
from unit.faults.schedule.test_blocks import STEPS, cut, kill, schedule, ticks


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([kill(), kill(2), cut()], {"kill": (2, 2), "isolate_replication": (1, 1)}),
        (
            [{"parallel": [kill(), cut("any broker")]}],
            {"kill": (1, 1), "isolate_replication": (1, 1)},
        ),
        ([{"sequence": [kill(), cut()]}], {"kill": (1, 1), "isolate_replication": (1, 1)}),
        ([kill(), {"sequence": [kill()], "repeat": 3}], {"kill": (1, 4)}),
        ([{"sequence": [kill()], "every": "1s"}], {"kill": (0, math.inf)}),
        (
            [{"sequence": [{"one_of": [kill(), kill(2)]}], "repeat": 3}],
            {"kill": (0, math.inf)},
        ),
    ],
)
def test_how_often_a_schedule_begins_each_fault(
    steps: list[object], expected: dict[str, tuple[int, float]]
) -> None:
    assert times_begun(STEPS.validate_python(steps), seed=1) == expected


@given(seed=st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_what_is_drawn_is_begun_as_often_as_it_is_counted(seed: int) -> None:
    world = World()
    steps = [
        {"random": [kill(), cut("any broker")], "for": "60s"},
        {"one_of": [kill(), {"sequence": [cut(), cut(2)]}]},
        {"sequence": [kill(3)], "probability": 0.5},
    ]
    one = schedule(world, *steps, seed=seed)
    while not one.done:
        ticks(one, 3)
        world.seconds += 5
    counted = times_begun(STEPS.validate_python(steps), seed=seed)
    begun = Counter(names(one))
    assert counted == {name: (count, count) for name, count in begun.items()}
