"""Reductions of a scenario: fewer steps, shorter durations, fewer records and nodes.

Every function returns a complete scenario, or None if the reduced scenario is not valid. The faults
of the scenario are a plain list of steps with ids, as `recorded_run` returns it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ValidationError

from ackproof.reproduction.recorded_run import with_faults
from ackproof.scenario.model import Scenario
from ackproof_faults import Fault
from ackproof_faults.conditions.condition import Condition
from ackproof_faults.conditions.durations import format_duration
from ackproof_faults.conditions.kinds import After, FaultHas, ProgressIs

#: Minimum duration of a fault; a shorter one ends before it can be verified.
_LEAST_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number of a scenario; `least` is the smallest useful value, `change` replaces the value.

    Its text is rounded to `digits` and followed by `unit`.
    """

    name: str
    value: float
    least: float
    change: Callable[[float], Scenario | None]
    unit: str = ""
    digits: int = 0
    #: Number of bisections between `least` and `value`, if `least` does not lose.
    rounds: int = 2

    def text(self, value: float) -> str:
        return f"{round(value, self.digits):g}{self.unit}"


def keep_steps(scenario: Scenario, steps: Sequence[int]) -> Scenario | None:
    """Return the scenario with these steps only, without conditions on the removed steps."""
    faults: list[Fault] = [scenario.faults[index] for index in steps]
    removed = {fault.id for fault in scenario.faults} - {fault.id for fault in faults}
    return _changed(scenario, [_without(fault, removed) for fault in faults])


def durations(scenario: Scenario) -> list[Number]:
    """Return the wait before every step and the duration of its fault."""
    numbers = []
    counted = {"acked": 0, "sent": 0}
    for index, fault in enumerate(scenario.faults):
        for condition in fault.when:
            if isinstance(condition, ProgressIs) and not condition.more:
                before = counted[condition.outcome]
                counted[condition.outcome] = max(before, condition.count)
                if condition.count > before:
                    numbers.append(_wait(scenario, index, condition, before))
            elif isinstance(condition, After):
                numbers.append(_pause(scenario, index, condition))
        if fault.heal_after is not None and not fault.heal_when:
            numbers.append(
                Number(
                    name=f"{fault.id} holds",
                    value=fault.heal_after,
                    least=_LEAST_S,
                    change=partial(_hold, scenario, index),
                    unit="s",
                    digits=1,
                )
            )
    return numbers


def records(scenario: Scenario, *, sent: int) -> list[Number]:
    """Return the numbers of the workload; `sent` is the number of sends of a losing trial."""
    workload = scenario.workload
    needed = -(-max(sent, 1) * 3 // 200) * 100  # 1.5 times `sent`, rounded up to hundreds
    partitions = 1 + max(_referenced_partitions(scenario), default=0)
    return [
        Number(
            name="producers",
            value=workload.producers,
            least=1,
            change=partial(_with_workload, scenario, "producers"),
        ),
        Number(
            name=f"partitions of {workload.topic}",
            value=scenario.topic.partitions,
            least=partitions,
            rounds=0,
            change=partial(_with_partitions, scenario),
        ),
        Number(
            name="tail",
            value=workload.tail,
            least=0,
            rounds=0,
            change=partial(_with_workload, scenario, "tail"),
        ),
        Number(
            name="records",
            value=workload.records,
            least=min(needed, workload.records),
            rounds=0,
            change=partial(_with_workload, scenario, "records"),
        ),
    ]


def nodes(scenario: Scenario) -> list[Number]:
    cluster = scenario.cluster
    if not scenario.cluster_kind.is_described:
        return []
    named = [broker for fault in scenario.faults for broker in fault.target.brokers]
    factors = [topic.replication_factor for topic in scenario.topics.values()]
    return [
        Number(
            name="brokers",
            value=cluster.brokers,
            least=max([*named, *factors]),
            change=partial(_with_brokers, scenario),
        ),
        Number(
            name="controllers",
            value=cluster.controllers,
            least=1,
            change=partial(_with_cluster, scenario, "controllers"),
        ),
    ]


def _without(fault: Fault, removed: set[str]) -> Fault:
    def change(item: Condition) -> Condition | None:
        return None if isinstance(item, FaultHas) and item.fault in removed else item

    return fault.model_copy(
        update={key: getattr(fault, key).replaced(change) for key in ("when", "heal_when")}
    )


def _wait(scenario: Scenario, index: int, condition: ProgressIs, before: int) -> Number:
    fault = scenario.faults[index]
    return Number(
        name=f"{fault.id} begins",
        value=condition.count - before,
        least=0 if before else 1,
        change=lambda value: _earlier(
            scenario, index, condition.outcome, condition.count - before - round(value)
        ),
        unit=f" {condition.outcome} after the step before" if before else f" {condition.outcome}",
    )


def _pause(scenario: Scenario, index: int, condition: After) -> Number:
    def shortened(value: float) -> Scenario | None:
        def change(item: Condition) -> Condition:
            return After(seconds=round(value, 1)) if item == condition else item

        return _with_conditions(scenario, index, change)

    return Number(
        name=f"{scenario.faults[index].id} begins",
        value=condition.seconds,
        least=0.0,
        change=shortened,
        unit="s after the step before",
        digits=1,
    )


def _earlier(scenario: Scenario, first: int, outcome: str, by: int) -> Scenario | None:
    """Return the scenario with step `first` and all later ones moved forward by `by` sends."""

    def change(item: Condition) -> Condition:
        if isinstance(item, ProgressIs) and item.outcome == outcome and not item.more:
            return ProgressIs(count=max(1, item.count - by), outcome=outcome, more=False)
        return item

    changed: Scenario | None = scenario
    for index in range(first, len(scenario.faults)):
        changed = changed and _with_conditions(changed, index, change)
    return changed


def _with_conditions(
    scenario: Scenario, index: int, change: Callable[[Condition], Condition]
) -> Scenario | None:
    fault = scenario.faults[index]
    both = {key: getattr(fault, key).replaced(change) for key in ("when", "heal_when")}
    return _replaced(scenario, index, fault.model_copy(update=both))


def _hold(scenario: Scenario, index: int, seconds: float) -> Scenario | None:
    fault = scenario.faults[index].model_copy(update={"heal_after": round(seconds, 1)})
    return _replaced(scenario, index, fault)


def _replaced(scenario: Scenario, index: int, fault: Fault) -> Scenario | None:
    faults = scenario.faults
    return _changed(scenario, [*faults[:index], fault, *faults[index + 1 :]])


def _with_workload(scenario: Scenario, field: str, value: float) -> Scenario | None:
    return _changed(scenario, workload=scenario.workload.model_copy(update={field: round(value)}))


def _with_partitions(scenario: Scenario, value: float) -> Scenario | None:
    name, topic, count = scenario.workload.topic, scenario.topic, round(value)
    fewer = {"partitions": count, "assignment": topic.assignment[:count]}
    return _changed(scenario, topics={**scenario.topics, name: topic.model_copy(update=fewer)})


def _with_cluster(scenario: Scenario, field: str, value: float) -> Scenario | None:
    return _changed(scenario, cluster=scenario.cluster.model_copy(update={field: round(value)}))


def _with_brokers(scenario: Scenario, value: float) -> Scenario | None:
    """Return the scenario with fewer brokers, without assignments to a removed broker."""
    topics = {
        name: topic.model_copy(update={"assignment": []})
        if any(broker > value for replicas in topic.assignment for broker in replicas)
        else topic
        for name, topic in scenario.topics.items()
    }
    return _with_cluster(scenario.model_copy(update={"topics": topics}), "brokers", value)


def _referenced_partitions(scenario: Scenario) -> list[int]:
    """Return the partitions of the workload's topic that targets and conditions refer to."""
    topic = scenario.workload.topic
    references: list[Any] = [fault.target for fault in scenario.faults]
    references += [
        item for fault in scenario.faults for item in (*fault.when.simple, *fault.heal_when.simple)
    ]
    return [item.partition for item in references if getattr(item, "topic", "") == topic]


def _changed(
    scenario: Scenario, faults: Sequence[Fault] | None = None, **parts: object
) -> Scenario | None:
    try:
        changed = scenario.model_copy(update=parts)
        return with_faults(changed, scenario.faults if faults is None else faults)
    except ValidationError:
        return None


def step_text(fault: Fault) -> str:
    begins = str(fault.when) if fault.when else "at once"
    ends = [str(fault.heal_when)] if fault.heal_when else []
    ends += [f"after {format_duration(fault.heal_after)}"] if fault.heal_after is not None else []
    until = " or ".join(ends) or "the schedule is over"
    return f"{fault}, {begins}, until {until}"
