"""The bounds of a whole schedule for one partition: the sum of its effects, in any order.

They use the number of times that a step may happen, the number of replicas and the duration, but
not conditions or leaders. Numbers are upper bounds.
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
from ackproof_model.bounds import bound
from ackproof_model.effects import Hit, Partition, Reassigns
from ackproof_model.exposure import NOTHING, Exposure
from ackproof_model.prediction.availability import joined


def exposure(
    scenario: Scenario, partition: Partition, steps: Sequence[Any] | None = None
) -> Exposure:
    """Return everything that the steps (default: the whole schedule) may do to the partition.

    A topic is certainly emptied only if the step that empties it and all steps before it certainly
    begin, and wait for a number of acks.
    """
    total, acked, begins = NOTHING, False, True
    for step in scenario.faults if steps is None else steps:
        exposed = _of_step(scenario, partition, step)
        if isinstance(step, Fault):
            acked = acked or (
                step.or_after is None
                and any(
                    isinstance(condition, ProgressIs) and condition.outcome == "acked"
                    for condition in step.when
                )
            )
            begins = begins and _begins(step)
        total = total.plus(replace(exposed, emptied=exposed.emptied and acked and begins))
    return total


def _begins(fault: Fault) -> bool:
    """Whether a fault begins in every run that is long enough."""
    return fault.or_after is not None or all(
        isinstance(condition, After | ProgressIs) for condition in fault.when
    )


def _of_step(scenario: Scenario, partition: Partition, step: Any) -> Exposure:
    match step:
        case SequenceBlock():
            once = exposure(scenario, partition, step.sequence)
            turns = _turns(step, scenario)
            return once if turns == 1 and step.probability == 1 else once.times(turns)
        case ParallelBlock():
            return _sum(_of_step(scenario, partition, branch) for branch in step.parallel)
        case ChoiceBlock():
            return reduce(
                Exposure.either, (_of_step(scenario, partition, one) for one in step.one_of)
            )
        case RandomBlock():
            _, longest = step.lasting
            shortest = step.lasting[0] + step.pause_before(step.lasting[0], step.stable[0])
            drawn = (_of_fault(scenario, partition, one, lasts_s=longest) for one in step.random)
            return reduce(Exposure.either, drawn).times(max(1, step.for_ // shortest))
    fault: Fault = step
    return _of_fault(scenario, partition, fault, lasts_s=_longest_s(fault))


def _sum(parts: Iterable[Exposure]) -> Exposure:
    return reduce(Exposure.plus, parts, NOTHING)


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
) -> Exposure:
    hit = hit_of(scenario, partition, fault, lasts_s=lasts_s)
    return _sum(effect.bounds(hit) for effect in fault.effects)


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
        case "leader":
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


def predict(configuration: Configuration, exposed: Exposure, why: str) -> Prediction:
    """Return the prediction for one partition. `why`: what the exact search does not support."""
    answer = bound(configuration, exposed)
    return Prediction(
        likelihood=answer.likelihood,
        trace=answer.trace,
        diagram=None,
        at_risk=(),
        error_codes=(),
        reasons=answer.reasons,
        bounds=f"Bounds, since the exact search does not support {why}: {answer.bounds}.",
        states=0,
        complete=True,
    )


def completed(searched: Prediction, configuration: Configuration, exposed: Exposure) -> Prediction:
    """Return the answers of the bounds for a search that ended early."""
    answer = bound(configuration, exposed)
    return replace(
        searched,
        likelihood=answer.likelihood,
        reasons=answer.reasons,
        trace=searched.trace or answer.trace,
        availability=(),
        bounds=f"{searched.bounds} Bounds exclude what they can: {answer.bounds}.",
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
    exposed = exposure(scenario, partition, steps)
    requests = not any(
        effect.disturbs_requests for fault in every_fault(steps) for effect in fault.effects
    )
    readable = requests and _keeps_leader(exposed)
    writable = readable and _keeps_isr(exposed) and _attainable(partition.configuration)
    return Availability(
        part=text,
        begun=begun,
        healed=healed,
        readable=Ability.CAN if readable else Ability.EITHER,
        writable=Ability.CAN if writable else Ability.EITHER,
    )


def _keeps_leader(exposed: Exposure) -> bool:
    """Whether the same leader serves all records all the time."""
    deposed = replace(exposed.budget, shrinks=0).total
    gone = exposed.removed or exposed.altered or exposed.moves or exposed.anything
    return not (deposed or gone or exposed.unanswered)


def _keeps_isr(exposed: Exposure) -> bool:
    """Whether the ISR and the settings that writes depend on stay the same."""
    return not (exposed.budget.shrinks or exposed.rewritten or exposed.lowered is not None)


def _attainable(configuration: Configuration) -> bool:
    """Whether an ISR of all replicas suffices (KAFKA-15583)."""
    enough = configuration.min_insync_replicas <= configuration.replication_factor
    return configuration.profile.hw_freeze or enough
