"""Schedules of blocks: how they are read, drawn and run."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from ackproof_faults import (
    BlastRadius,
    FaultError,
    Schedule,
    every_fault,
    plain,
    times_begun,
)
from ackproof_faults.schedule.context import certain_conflicts
from ackproof_faults.schedule.sampling import SampledLoop, SampledSequence, Sampler
from support.fake_cluster import FakeCluster
from support.recorded_schedules import World, begun, names
from support.schedules import STEPS, cut, kill


def schedule(world: World, *steps: object, seed: int = 1, **radius: Any) -> Schedule:
    return world.schedule(
        *STEPS.validate_python(list(steps)), seed=seed, blast_radius=BlastRadius(**radius)
    )


def ticks(schedule: Schedule, count: int = 10) -> None:
    for _ in range(count):
        schedule.tick()


def test_a_step_after_a_block_begins_when_everything_in_it_has_recovered() -> None:
    world = World(cluster=FakeCluster(recovered=False))
    one = schedule(world, {"sequence": [kill(1, heal_after="1s")]}, kill(2))
    assert begun(world, one, 0, 1) == [1, 1]
    assert one.windows[0].healed_at is not None
    world.cluster.recovered = True
    ticks(one)
    assert [window.nodes for window in one.windows] == [(1,), (2,)]


def test_parallel_steps_do_not_wait_for_each_other() -> None:
    world = World()
    both = {"parallel": [kill(1, when="10 acked", heal_after="1s"), cut(2, heal_after="1s")]}
    one = schedule(world, both)
    ticks(one)
    assert names(one) == ["isolate_replication"]
    assert "start of kill" in one.waiting_for
    assert [fault.name for fault in one.waiting] == ["kill"]
    world.acked = 10
    ticks(one)
    assert names(one) == ["isolate_replication", "kill"]
    world.seconds = 1
    ticks(one)
    assert one.done


def test_a_branch_can_wait_for_a_fault_of_another() -> None:
    world = World()
    waiting = kill(1, when="the-cut began", heal_when="the-cut ended")
    one = schedule(
        world, {"parallel": [waiting, cut(2, id="the-cut", or_after="5s", heal_after="5s")]}
    )
    assert begun(world, one, 0, 5) == [0, 2]
    assert names(one) == ["isolate_replication", "kill"]
    assert one.windows[1].healed_at is None
    assert begun(world, one, 10) == [2]
    assert one.done


def test_loop_has_repeat_turns_at_least_every_apart() -> None:
    world = World()
    one = schedule(world, {"sequence": [kill(1)], "repeat": 3, "every": "10s"})
    assert begun(world, one, 0, 9.9, 10, 19.9, 20, 100) == [1, 1, 2, 2, 3, 3]
    assert one.done


def test_loop_begins_no_turn_after_for_or_until() -> None:
    for bound in ({"for": "10s"}, {"until": "10 acked"}):
        world = World()
        one = schedule(world, {"sequence": [kill(1, heal_after="2s")], **bound})
        assert begun(world, one, 0, 2) == [1, 2], bound
        world.acked = 10
        assert begun(world, one, 11) == [2], bound
        assert one.done


def test_endless_loop_leaves_no_waiting_faults() -> None:
    world = World()
    one = schedule(world, {"sequence": [kill(1, heal_after="1s")], "every": "1s"})
    assert begun(world, one, *range(6))[-1] > 3
    assert not one.done
    assert one.waiting == one.unended == []
    one.heal_all()
    assert all(window.healed_at is not None for window in one.windows)


def test_endless_loop_whose_fault_never_begins_is_listed() -> None:
    world = World()
    one = schedule(world, {"sequence": [kill(1, when="10 acked")], "every": "1s"})
    ticks(one)
    assert [fault.name for fault in one.waiting] == ["kill"]


def test_conditions_on_faults_apply_to_their_own_turn_of_a_loop() -> None:
    world = World()
    both = [kill(2, when="c began"), cut(1, id="c", or_after="5s")]
    one = schedule(world, {"sequence": [{"parallel": both}], "repeat": 2})
    assert begun(world, one, 0, 5, 9, 10) == [0, 2, 2, 4]
    assert names(one) == ["isolate_replication", "kill"] * 2


def test_heal_all_heals_every_branch_and_cancels_waiting_faults() -> None:
    world = World()
    looping = {"sequence": [cut(1, heal_after="9s")], "repeat": 9}
    one = schedule(world, {"parallel": [looping, cut(2, heal_after="9s")]}, kill(3))
    ticks(one)
    one.heal_all()
    ticks(one)
    assert len(one.windows) == 2
    assert all(window.healed_at is not None for window in one.windows)
    assert one.waiting == []


NEMESIS = {
    "random": [kill("any broker"), cut("any 2 brokers"), {"fault": "restart", "target": 3}],
    "weights": [3, 1, 1],
    "for": "60s",
    "lasting": ["1s", "5s"],
    "stable": ["500ms", "2s"],
    "fault_free": 0.5,
}
MIXED = [
    {"one_of": [kill(1), kill(2), cut(3)], "weights": [1, 2, 3]},
    {"sequence": [NEMESIS], "probability": 0.7},
    {"parallel": [{"sequence": [kill("any broker")], "repeat": 3, "probability": 0.5}, NEMESIS]},
]


def drawn(seed: int, steps: list[object]) -> tuple[SampledSequence, list[SampledSequence | None]]:
    sampler = Sampler(seed=seed, brokers=(1, 2, 3))
    whole = sampler.schedule(STEPS.validate_python(steps))
    loops = [step for step in _flat(whole) if isinstance(step, SampledLoop)]
    return whole, [sampler.turn(loop, number) for loop in loops for number in range(5)]


def _flat(step: Any) -> list[Any]:
    inner = getattr(step, "steps", None) or getattr(step, "branches", None) or ()
    return [step, *(found for one in inner for found in _flat(one))]


@given(seed=st.integers(min_value=0, max_value=2**63))
def test_the_same_seed_gives_the_same_schedule(seed: int) -> None:
    assert drawn(seed, MIXED) == drawn(seed, MIXED)


def test_other_seeds_give_other_schedules_and_use_every_choice() -> None:
    schedules = [drawn(seed, MIXED) for seed in range(40)]
    assert len({str(one) for one in schedules}) == 40
    first = {str(whole.steps[0].target) for whole, _ in schedules}
    assert first == {"broker 1", "broker 2", "broker 3"}
    turns = [turn for _, all_turns in schedules for turn in all_turns]
    assert any(turn is None for turn in turns)
    assert any(turn is not None for turn in turns)


def test_turn_does_not_depend_on_when_it_is_sampled() -> None:
    sampler = Sampler(seed=7, brokers=(1, 2, 3))
    (loop,) = sampler.schedule(
        STEPS.validate_python([{"sequence": [kill("any broker")], "repeat": 9}])
    ).steps
    assert isinstance(loop, SampledLoop)
    forwards = [sampler.turn(loop, number) for number in range(9)]
    backwards = [sampler.turn(loop, number) for number in reversed(range(9))]
    assert forwards == backwards[::-1]
    assert len({str(turn) for turn in forwards}) > 1


@given(
    seed=st.integers(min_value=0, max_value=2**32),
    share=st.floats(min_value=0, max_value=0.7),
    length=st.integers(min_value=12, max_value=300),
)
def test_nemesis_respects_its_limits(seed: int, share: float, length: int) -> None:
    spec = {**NEMESIS, "fault_free": share, "for": length}
    whole, _ = drawn(seed, [spec])
    faults = [step for step in _flat(whole) if hasattr(step, "heal_after")]
    assert faults
    held = sum(fault.heal_after for fault in faults)
    paused = sum(fault.or_after for fault in faults)
    assert held + paused <= length + 0.001
    assert paused >= (held + paused) * share - 0.001 * len(faults)
    for fault in faults:
        assert 1 <= fault.heal_after <= 5
        assert fault.or_after >= 0.5
        assert fault.target.role == "brokers"
        assert len(fault.target.brokers) == (2 if fault.name == "isolate_replication" else 1)


def test_weights_change_the_frequency_of_choices() -> None:
    counts = {"kill": 0, "isolate_replication": 0, "restart": 0}
    for seed in range(30):
        for step in _flat(drawn(seed, [{**NEMESIS, "weights": [8, 1, 1]}])[0]):
            if hasattr(step, "heal_after"):
                counts[step.name] += 1
    assert counts["kill"] > 3 * counts["isolate_replication"] > 0
    assert counts["restart"] > 0


def test_a_nemesis_runs_one_fault_after_the_other() -> None:
    world = World()
    one = schedule(world, {**NEMESIS, "for": "30s"})
    for tenth in range(1000):
        world.seconds = tenth / 10
        one.tick()
        assert len([window for window in one.windows if window.recovered_at is None]) <= 1
    assert one.done
    assert len(one.windows) > 2


def test_a_fault_beyond_the_blast_radius_waits_until_there_is_room() -> None:
    world = World()
    both = [kill(1, heal_after="5s"), kill(2, heal_after="5s")]
    one = schedule(world, {"parallel": both}, brokers="minority")
    ticks(one)
    assert [window.nodes for window in one.windows] == [(1,)]
    assert "blast_radius.brokers: minority (1 of 3)" in one.waiting_for
    world.cluster.recovered = False
    assert begun(world, one, 5) == [1]  # healed, but not back yet
    world.cluster.recovered = True
    ticks(one)
    assert [window.nodes for window in one.windows] == [(1,), (2,)]


def test_two_faults_on_a_node_count_as_one_node() -> None:
    one = schedule(World(), cut(1, heal_after="9s"), kill(1), brokers=1)
    ticks(one)
    assert names(one) == ["isolate_replication", "kill"]


@pytest.mark.parametrize(
    ("steps", "radius", "why"),
    [
        ([kill([1, 2])], {"brokers": "minority"}, "blast_radius.brokers"),
        ([kill("majority of controllers")], {"controllers": "minority"}, "blast_radius.contr"),
        ([kill("active controller")], {"controllers": 0}, "blast_radius.contr"),
        ([cut(1), cut(2, when="5 acked")], {"brokers": 1}, "will not end before it"),
    ],
)
def test_fault_that_always_exceeds_the_blast_radius_is_refused(
    steps: list[object], radius: dict[str, Any], why: str
) -> None:
    world = World(acked=5)
    with pytest.raises(FaultError, match=why):
        ticks(schedule(world, *steps, **radius))


def test_a_minority_of_controllers_is_within_the_quorum() -> None:
    world = World(cluster=FakeCluster(exits=dict.fromkeys([100, 101, 102])))
    one = schedule(world, kill("minority of controllers"), controllers="minority")
    ticks(one, 1)
    assert one.windows[0].nodes == (101,)  # the active one


@pytest.mark.parametrize("second", [kill(1), {"fault": "restart", "target": 1}])
def test_fault_that_undoes_a_fault_in_force_is_refused(second: dict[str, object]) -> None:
    world = World()
    one = schedule(world, {"parallel": [kill(1, heal_after="9s"), second]})
    with pytest.raises(FaultError, match=r"would undo another fault: kill of broker 1 is in force"):
        ticks(one)


def test_certain_conflicts_are_detected_before_the_run() -> None:
    def found(*steps: object) -> list[tuple[str | int, ...]]:
        return [where for where, _ in certain_conflicts(STEPS.validate_python(list(steps)))]

    assert found(kill(1), {"fault": "restart", "target": [1, 2]}) == [(1,)]
    assert found({"sequence": [cut(1), kill(1), cut([1])]}) == [(0, "sequence", 2)]
    assert found(kill(1, heal_after="1s"), kill(1)) == []
    assert found(kill(1), kill(2)) == found(kill(1), cut(1)) == []
    assert found({"sequence": [kill(1)]}, kill(1)) == []


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([{"sequence": []}], "at least 1"),
        ([{"parallel": [kill()]}], "at least 2"),
        ([{"one_of": [kill(), kill(2)], "weights": [1]}], "1 for 2 steps"),
        ([{"sequence": [kill()], "repeat": 0}], "greater than or equal to 1"),
        ([{**NEMESIS, "random": [kill(heal_after="1s")], "weights": []}], "are drawn here"),
        ([{**NEMESIS, "random": [NEMESIS], "weights": []}], "faults only"),
        ([{**NEMESIS, "for": "1s"}], "too short for one pause and one fault"),
        (
            [{**NEMESIS, "for": "1s", "lasting": [0, 0], "stable": [0, 0]}],
            "for: 1s has room for more than 10,000 faults, of 0s each with its pause",
        ),
        ([{**NEMESIS, "lasting": ["5s", "1s"]}], "must not exceed the second, 1s"),
        ([{"sequence": [kill()], "often": True}], "Extra inputs"),
        ([{"when": "5 acked"}], "tag"),
    ],
)
def test_invalid_schedules_are_refused(steps: list[object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        STEPS.validate_python(steps)


def test_steps_round_trip() -> None:
    steps = STEPS.validate_python(MIXED)
    assert STEPS.validate_python(STEPS.dump_python(steps, mode="json", by_alias=True)) == steps


def test_faults_in_blocks_are_found_and_blocks_are_not_plain() -> None:
    steps = STEPS.validate_python(MIXED)
    assert len(list(every_fault(steps))) == 3 + 3 + 1 + 3
    assert not plain(steps)
    assert plain(STEPS.validate_python([kill(), cut()]))
    assert not plain(STEPS.validate_python([kill("any broker")]))


def test_a_high_watermark_that_moves_is_not_stuck() -> None:
    world = World()
    one = schedule(world, kill(1, when="hw of orders-0 stuck for 2s"))
    for second, end in ((0, 10), (1.5, 10), (1.9, 11), (3.8, 11)):
        world.seconds, world.cluster.now_log_end = second, (end, 0)
        one.tick()
    assert names(one) == []
    world.seconds = 3.9
    one.tick()
    assert names(one) == ["kill"]


def test_observation_reads_the_state_of_the_cluster() -> None:
    world = World(cluster=FakeCluster(now_log_end=(100, 4), now_committed=90))
    wanted = ["epoch of orders-0 == 5", "lag of g on orders-0 > 20", "leader of orders-0 == 1"]
    one = schedule(world, kill(1, when=[*wanted, "log of broker says 'boo'"]))
    one.tick()
    world.cluster.now_log_end = (120, 5)
    one.tick()
    assert names(one) == []
    world.cluster.log_text = {2: "[x] boo!"}
    one.tick()
    assert names(one) == []  # a log is not read at every tick
    world.seconds = 1
    one.tick()
    assert names(one) == ["kill"]


ONCE_EACH = {"kill": (1, 1), "isolate_replication": (1, 1)}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([kill(), kill(2), cut()], {"kill": (2, 2), "isolate_replication": (1, 1)}),
        ([{"parallel": [kill(), cut("any broker")]}], ONCE_EACH),
        ([{"sequence": [kill(), cut()]}], ONCE_EACH),
        ([kill(), {"sequence": [kill()], "repeat": 3}], {"kill": (1, 4)}),
        ([{"sequence": [kill()], "every": "1s"}], {"kill": (0, math.inf)}),
        ([{"sequence": [{"one_of": [kill(), kill(2)]}], "repeat": 3}], {"kill": (0, math.inf)}),
    ],
)
def test_times_begun_of_each_fault(
    steps: list[object], expected: dict[str, tuple[int, float]]
) -> None:
    assert times_begun(STEPS.validate_python(steps), seed=1) == expected


@given(seed=st.integers(0, 1000))
@settings(max_examples=50)
def test_times_begun_matches_the_sampled_faults(seed: int) -> None:
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
