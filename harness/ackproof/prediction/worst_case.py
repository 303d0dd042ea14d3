"""The worst case of a whole schedule for one partition: the sum of its effects, in any order.

It reads how often a step may happen, how many replicas it hits and for how long, but neither
conditions nor who leads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from ackproof.scenario.model import Scenario
from ackproof_faults import Fault
from ackproof_faults.conditions.kinds import After, ProgressIs
from ackproof_faults.schedule.blocks import (
    ChoiceBlock,
    ParallelBlock,
    RandomBlock,
    SequenceBlock,
    every_fault,
)
from ackproof_model import Ability, Availability, Configuration, Prediction
from ackproof_model.effects import Hit, Partition, Reassigns
from ackproof_model.perturbations import NOTHING, WorstCase
from ackproof_model.prediction.availability import joined
from ackproof_model.worst_case import answer


def total(
    scenario: Scenario, partition: Partition, steps: Sequence[Any] | None = None
) -> WorstCase:
    """Return everything that the steps (default: the whole schedule) may do to the partition.

    A topic is certainly emptied only if the step that empties it and all steps before it certainly
    begin, and wait for a number of acks.
    """
    summed, acked, begins = NOTHING, False, True
    for step in scenario.faults if steps is None else steps:
        worst = _of_step(scenario, partition, step)
        if isinstance(step, Fault):
            acked = acked or (
                step.or_after is None
                and any(
                    isinstance(condition, ProgressIs) and condition.outcome == "acked"
                    for condition in step.when
                )
            )
            begins = begins and _begins(step)
        summed = summed.plus(replace(worst, emptied=worst.emptied and acked and begins))
    return summed


def _begins(fault: Fault) -> bool:
    """Whether a fault begins in every run that is long enough."""
    return fault.or_after is not None or all(
        isinstance(condition, After | ProgressIs) for condition in fault.when
    )


def _of_step(scenario: Scenario, partition: Partition, step: Any) -> WorstCase:
    match step:
        case SequenceBlock():
            once = total(scenario, partition, step.sequence)
            turns = _turns(step, scenario)
            return once if turns == 1 and step.probability == 1 else once.times(turns)
        case ParallelBlock():
            return _sum(_of_step(scenario, partition, branch) for branch in step.parallel)
        case ChoiceBlock():
            return reduce(
                WorstCase.either, (_of_step(scenario, partition, one) for one in step.one_of)
            )
        case RandomBlock():
            _, longest = step.lasting
            shortest = step.lasting[0] + step.pause_before(step.lasting[0], step.stable[0])
            drawn = (_of_fault(scenario, partition, one, lasts_s=longest) for one in step.random)
            return reduce(WorstCase.either, drawn).times(max(1, step.for_ // shortest))
    fault: Fault = step
    return _of_fault(scenario, partition, fault, lasts_s=_longest_s(fault))


def _sum(parts: Iterable[WorstCase]) -> WorstCase:
    return reduce(WorstCase.plus, parts, NOTHING)


def _turns(block: SequenceBlock, scenario: Scenario) -> float:
    """Return the most turns that a loop may have."""
    if not block.loops:
        return 1
    most = [math.inf if block.repeat is None else block.repeat]
    lasts = [one for one in (block.for_, scenario.workload.seconds) if one is not None]
    if block.every and lasts:
        most.append(min(lasts) // block.every + 1)
    return min(most)


def _longest_s(fault: Fault) -> float:
    return math.inf if fault.heal_after is None else fault.heal_after


def _of_fault(
    scenario: Scenario, partition: Partition, fault: Fault, *, lasts_s: float
) -> WorstCase:
    hit = hit_of(scenario, partition, fault, lasts_s=lasts_s)
    return _sum(effect.worst_case(hit) for effect in fault.effects)


def hit_of(
    scenario: Scenario, partition: Partition, fault: Fault, *, lasts_s: float | None = None
) -> Hit:
    """Return how a fault hits the partition; `lasts_s` is by default its own duration."""
    partition = _anywhere_if_moved(scenario, partition)
    replicas = _replicas_hit(scenario, partition, fault)
    combined = scenario.cluster.combined
    return Hit(
        fault=fault.name,
        partition=partition,
        replicas=replicas,
        controllers=fault.target.of_controllers or bool(combined and replicas),
        lasts_s=_longest_s(fault) if lasts_s is None else lasts_s,
        impaired_s=_impaired_s(scenario.faults),
    )


def _anywhere_if_moved(scenario: Scenario, partition: Partition) -> Partition:
    """Return the partition, without the brokers of its replicas if the schedule may move them."""
    effects = (effect for fault in every_fault(scenario.faults) for effect in fault.effects)
    moved = any(isinstance(one, Reassigns) and one.may_move(partition) for one in effects)
    return replace(partition, assigned=()) if moved else partition


def _replicas_hit(scenario: Scenario, partition: Partition, fault: Fault) -> int:
    """Return the most replicas of the partition that the fault's target may have."""
    target, cluster = fault.target, scenario.cluster
    match target.role:
        case "all":
            count = partition.replicas
        case "leader" | "share coordinator":
            count = 1
        case "followers":
            count = scenario.every_topic[target.topic].replication_factor - 1
        case "any":
            count = target.count
        case "brokers" if partition.assigned:
            count = len(set(target.brokers) & set(partition.assigned))
        case "brokers":
            count = len(set(target.brokers))
        case _:  # controllers
            count = int(cluster.controllers) if cluster.combined else 0
    return min(count, partition.replicas)


def _impaired_s(steps: Sequence[Any]) -> float:
    """Return for how long replicas may be unable to reach each other, by faults together.

    A pause between two faults is not a recovery: after a cut, TCP waits for about as long as the
    cut lasted before it tries again.
    """
    return sum(map(_impaired, steps))


def _impaired(step: Any) -> float:
    match step:
        case SequenceBlock() | ParallelBlock():
            once = _impaired_s(step.steps)
            return math.inf if once and isinstance(step, SequenceBlock) and step.loops else once
        case ChoiceBlock():
            return max(map(_impaired, step.steps))
        case RandomBlock():
            return step.for_ if any(map(_impaired, step.steps)) else 0.0
    fault: Fault = step
    return _longest_s(fault) if any(effect.impairs for effect in fault.effects) else 0.0


def predict(configuration: Configuration, worst: WorstCase, why: str) -> Prediction:
    """Return the prediction for one partition. `why`: what the exact search does not support."""
    return answer.predict(configuration, worst, f"the exact search cannot follow {why}")


def completed(searched: Prediction, configuration: Configuration, worst: WorstCase) -> Prediction:
    """Return the answers of the worst case for a search that ended early."""
    answered = answer.predict(configuration, worst, "the exact search stopped early")
    return replace(
        searched,
        likelihood=answered.likelihood,
        reasons=answered.reasons,
        trace=searched.trace or answered.trace,
        availability=(),
        method=f"{searched.method} {answered.method}",
    )


def availability(scenario: Scenario, partitions: Iterable[Partition]) -> tuple[Availability, ...]:
    """Return whether all of these partitions can be read and written, in each part of the schedule.

    The answer is `can` if no effect touches a partition, otherwise `either`.
    """
    return joined([tuple(_parts(scenario, partition)) for partition in partitions])


def _parts(scenario: Scenario, partition: Partition) -> Iterator[Availability]:
    """Yield the parts for one partition. Effects stay, because healing is not modelled here."""
    steps = scenario.faults
    yield _part(scenario, partition, (), "before the first fault", begun=0)
    if not all(isinstance(step, Fault) for step in steps):
        yield _part(scenario, partition, steps, "from the first fault on", begun=1)
        return
    for number, fault in enumerate(steps, start=1):
        text = f"after fault {number} ({fault.name}) begins"
        yield _part(scenario, partition, steps[:number], text, begun=number)
    healed = tuple(range(1, len(steps) + 1))
    yield _part(scenario, partition, steps, "at the end", begun=len(steps), healed=healed)


def _part(
    scenario: Scenario,
    partition: Partition,
    steps: Sequence[Any],
    text: str,
    *,
    begun: int,
    healed: tuple[int, ...] = (),
) -> Availability:
    worst = total(scenario, partition, steps)
    requests = not any(
        effect.disturbs_requests for fault in every_fault(steps) for effect in fault.effects
    )
    readable = requests and _keeps_leader(worst)
    writable = readable and _keeps_isr(worst) and _attainable(partition.configuration)
    return Availability(
        part=text,
        begun=begun,
        healed=healed,
        readable=Ability.CAN if readable else Ability.EITHER,
        writable=Ability.CAN if writable else Ability.EITHER,
    )


def _keeps_leader(worst: WorstCase) -> bool:
    """Whether the same leader serves all records all the time."""
    deposed = worst.counts.without_shrinks
    gone = worst.removed or worst.altered or worst.moves or worst.anything
    return not (deposed or gone or worst.unanswered)


def _keeps_isr(worst: WorstCase) -> bool:
    """Whether the ISR and the settings that writes depend on stay the same."""
    return not (worst.counts.shrinks or worst.rewritten or worst.lowered is not None)


def _attainable(configuration: Configuration) -> bool:
    """Whether an ISR of all replicas suffices (KAFKA-15583)."""
    enough = configuration.min_insync_replicas <= configuration.replication_factor
    return configuration.profile.hw_freeze or enough
