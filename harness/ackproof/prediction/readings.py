"""A schedule in the words of the exact search: every reading of who a fault's targets are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ackproof.prediction.effects import keeps_leaders, model_effects
from ackproof.scenario.internal_topics import every_topic
from ackproof.scenario.model import Scenario
from ackproof_faults import Fault, plain
from ackproof_faults.conditions.condition import Condition
from ackproof_faults.conditions.partition_state import IsrIs, LeaderChanges
from ackproof_faults.conditions.progress import After, ProgressIs
from ackproof_faults.conditions.targets import TargetSpec
from ackproof_model import Condition as Abstract
from ackproof_model import (
    Elapsed,
    Injection,
    IsrSize,
    LeaderChanged,
    Progress,
    Role,
)

#: Every fault adds records and interleavings; with more faults the search would not end.
_MAX_FAULTS = 8

#: Replaces a condition on another partition, which may hold at any time.
_ANY_TIME = IsrSize(op=">=", size=0)


def unsupported(scenario: Scenario) -> str:
    """Return what in the schedule the exact search does not support; '' if nothing."""
    if not plain(scenario.faults):
        return "schedules with blocks of steps or random targets"
    if len(scenario.faults) > _MAX_FAULTS:
        return f"schedules of {len(scenario.faults)} faults (at most {_MAX_FAULTS} are searched)"
    triggers = [one for fault in scenario.faults for one in (*fault.when, *fault.heal_when)]
    if alternatives := [one for one in triggers if len(one.alternatives) > 1]:
        return f"conditions with alternatives ('{alternatives[0]}')"
    controllers = [one.target for one in scenario.faults if one.target.of_controllers]
    if controllers:
        return f"faults on the {controllers[0]}"
    unknown = sorted(unknown_faults(scenario))
    return f"the fault {unknown[0]}" if unknown else ""


def unknown_faults(scenario: Scenario) -> set[str]:
    return {fault.name for fault in scenario.every_fault if model_effects(fault) is None}


def schedules(scenario: Scenario, topic: str, partition: int) -> Iterator[tuple[Injection, ...]]:
    """Yield every reading of the schedule for one partition: who the targets may be.

    Yields nothing if the model does not support the schedule.
    """
    if unsupported(scenario):
        return
    roles = [_roles(scenario, index, topic, partition) for index in range(len(scenario.faults))]
    for chosen in itertools.product(*roles):
        yield tuple(
            _injection(fault, targets, topic, partition)
            for fault, targets in zip(scenario.faults, chosen, strict=True)
        )


def _injection(fault: Fault, targets: frozenset[Role], topic: str, partition: int) -> Injection:
    return Injection(
        fault=fault.name,
        effects=model_effects(fault) or (),
        targets=targets,
        when=_conditions(fault.when, topic, partition),
        or_after=fault.or_after,
        heal_when=_conditions(fault.heal_when, topic, partition),
        heal_or_after=fault.heal_after,
    )


def _roles(scenario: Scenario, index: int, topic: str, partition: int) -> list[frozenset[Role]]:
    """Return the roles that a fault's target may have in one partition, as alternatives.

    Empty if the model cannot describe them.
    """
    target, brokers = scenario.faults[index].target, scenario.cluster.brokers
    if (target.topic, target.partition) == (topic, partition):
        return [frozenset({Role.LEADER if target.role == "leader" else Role.FOLLOWERS})]
    if _has_same_target(scenario.faults, index):
        return [frozenset({Role.SAME})]
    count = _target_size(scenario, target)
    if count == brokers:
        return [frozenset({Role.LEADER, Role.FOLLOWERS})]
    if count == 1:
        return [frozenset({Role.ANY_ONE})]
    if brokers == scenario.topic.replication_factor == 3:  # two of three
        return [frozenset({Role.FOLLOWERS}), frozenset({Role.LEADER, Role.ANY_ONE})]
    return []  # the model has no role for several of many brokers


def _target_size(scenario: Scenario, target: TargetSpec) -> int:
    match target.role:
        case "leader":
            return 1
        case "followers":
            return every_topic(scenario)[target.topic].replication_factor - 1
        case "brokers":
            return len(set(target.brokers))
    return scenario.cluster.brokers


def _has_same_target(faults: Sequence[Fault], index: int) -> bool:
    """Whether a fault certainly hits the same brokers as the fault before it.

    The same target text means the same brokers as long as no process was stopped in between: a cut
    of replication moves no leadership.
    """
    before = faults[:index]
    return (
        bool(before)
        and before[-1].target == faults[index].target
        and all(map(keeps_leaders, before))
    )


def _conditions(
    conditions: Sequence[Condition], topic: str, partition: int
) -> tuple[Abstract, ...]:
    return tuple(_condition(one, topic, partition) for one in conditions)


def _condition(condition: Condition, topic: str, partition: int) -> Abstract:
    match condition:
        case ProgressIs(outcome=outcome, more=more):
            return Progress(outcome=outcome, more=more)
        case After(seconds=seconds):
            return Elapsed(seconds=seconds)
        case IsrIs(op=op, size=size) if (condition.topic, condition.partition) == (
            topic,
            partition,
        ):
            return IsrSize(op=op, size=size)
        case LeaderChanges() if (condition.topic, condition.partition) == (topic, partition):
            return LeaderChanged()
        case _:
            return _ANY_TIME
