"""What a whole schedule may do to one partition: the sum of its faults' effects, in any order.

Conditions, and who leads when, are left out; how often a step may happen, on how many replicas and
for how long is not. Numbers are upper bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from ackproof.prediction.durations import longest_s
from ackproof.prediction.effect_stress import Hit, Place, stress_of
from ackproof_faults import Fault
from ackproof_faults.conditions.progress import After, ProgressIs
from ackproof_faults.schedule.blocks import (
    ChoiceBlock,
    ParallelBlock,
    RandomBlock,
    SequenceBlock,
)
from ackproof_model.bounds import NOTHING, Stress


def stress(place: Place) -> Stress:
    """Return what the schedule may do to the partition in all."""
    return stress_of_steps(place, place.scenario.faults)


def stress_of_steps(place: Place, steps: Sequence[Any]) -> Stress:
    """Return the sum of steps; a topic is certainly emptied only after a count of acks.

    And only if it and all steps before it certainly begin.
    """
    total, acked, begins = NOTHING, False, True
    for step in steps:
        one = _of_step(place, step)
        if isinstance(step, Fault):
            acked = acked or (
                step.or_after is None  # otherwise it may begin without an ack
                and any(
                    isinstance(condition, ProgressIs) and condition.outcome == "acked"
                    for condition in step.when
                )
            )
            begins = begins and _begins(step)
        total = total.plus(replace(one, emptied=one.emptied and acked and begins))
    return total


def _begins(fault: Fault) -> bool:
    """Whether a fault begins in every run that is long enough."""
    return fault.or_after is not None or all(
        isinstance(condition, After | ProgressIs) for condition in fault.when
    )


def _of_step(place: Place, step: Any) -> Stress:
    match step:
        case SequenceBlock():
            once = stress_of_steps(place, step.sequence)
            turns = _turns(step, place)
            return once if turns == 1 and step.probability == 1 else once.times(turns)
        case ParallelBlock():
            return _sum(_of_step(place, branch) for branch in step.parallel)
        case ChoiceBlock():
            return reduce(Stress.either, (_of_step(place, one) for one in step.one_of))
        case RandomBlock():
            _, longest = step.lasting
            shortest = step.lasting[0] + step.pause_before(step.lasting[0], step.stable[0])
            drawn = (_of_fault(place, fault, lasting=longest) for fault in step.random)
            return reduce(Stress.either, drawn).times(max(1, step.for_ // shortest))
    fault: Fault = step
    return _of_fault(place, fault, lasting=longest_s(fault))


def _sum(parts: Iterable[Stress]) -> Stress:
    return reduce(Stress.plus, parts, NOTHING)


def _turns(block: SequenceBlock, place: Place) -> float:
    """Return the most turns that a loop may have."""
    if not block.loops:
        return 1
    most = [math.inf if block.repeat is None else block.repeat]
    lasts = [one for one in (block.for_, place.scenario.workload.seconds) if one is not None]
    if block.every and lasts:
        most.append(min(lasts) // block.every + 1)
    return min(most)


def _of_fault(place: Place, fault: Fault, *, lasting: float) -> Stress:
    hit = Hit(place=place, fault=fault, lasting=lasting)
    return _sum(stress_of(effect, hit) for effect in fault.effects)
