"""A schedule in the words of the exact search: every reading of who a fault's targets are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ackproof.prediction.effect_stress import Place
from ackproof.prediction.effects import keeps_leaders, model_effects
from ackproof.scenario.internal_topics import every_topic
from ackproof_faults import Fault, plain
from ackproof_faults.conditions.condition import Condition
from ackproof_faults.conditions.events import FaultHas
from ackproof_faults.conditions.partition_state import (
    IsrIs,
    IsrIsExactly,
    LeaderChanges,
    LeaderIs,
)
from ackproof_faults.conditions.progress import After, ProgressIs
from ackproof_faults.conditions.targets import TargetSpec
from ackproof_model import (
    AnyOf,
    AnyTime,
    Configures,
    Cuts,
    Effect,
    Elapsed,
    Ends,
    FaultEvent,
    Injection,
    IsrSize,
    LeaderChanged,
    Progress,
    QuorumLost,
    Role,
    Stalls,
)
from ackproof_model import Condition as Abstract
from ackproof_model import IsrIs as Members
from ackproof_model import LeaderIs as Leads

#: Every fault adds records and interleavings; with more faults the search would not end.
_MAX_FAULTS = 8

Targets = frozenset[Role | int]


def unsupported(place: Place) -> str:
    """Return what in the schedule the exact search does not support; '' if nothing."""
    scenario = place.scenario
    if not plain(scenario.faults):
        return "schedules with blocks of steps or random targets"
    if len(scenario.faults) > _MAX_FAULTS:
        return f"schedules of {len(scenario.faults)} faults (at most {_MAX_FAULTS} are searched)"
    if scenario.cluster.combined and any(fault.touches_brokers for fault in scenario.faults):
        return "faults on brokers that are also controllers"
    if unknown := sorted(one.name for one in scenario.faults if model_effects(one, place) is None):
        return f"the fault {unknown[0]} here"
    return _unsupported_together(
        [one for fault in scenario.faults for one in model_effects(fault, place) or ()]
    )


def _unsupported_together(effects: Sequence[Effect]) -> str:
    if QuorumLost() in effects and any(isinstance(one, Ends) for one in effects):
        # Controllers that return know no sessions: a broker may lead again, never fenced.
        return "brokers that end while the controllers may have ended, too"
    deaf = any(
        isinstance(one, Stalls) or (isinstance(one, Cuts) and one.channels == ("controllers",))
        for one in effects
    )
    if deaf and any(isinstance(one, Configures) for one in effects):
        return "a change of settings of which some broker does not hear"
    return ""


def schedules(place: Place) -> Iterator[tuple[Injection, ...]]:
    """Yield every reading of the schedule for one partition: who the targets may be.

    Yields nothing if the model does not support the schedule.
    """
    if unsupported(place):
        return
    faults = place.scenario.faults
    effects = [model_effects(fault, place) or () for fault in faults]
    roles = [_roles(place, index, effects) for index in range(len(faults))]
    for chosen in itertools.product(*roles):
        yield tuple(
            _injection(place, fault, own, targets)
            for fault, own, targets in zip(faults, effects, chosen, strict=True)
        )


def _injection(
    place: Place, fault: Fault, effects: tuple[Effect, ...], targets: Targets
) -> Injection:
    return Injection(
        fault=fault.name,
        effects=effects,
        targets=targets,
        when=tuple(_condition(place, one) for one in fault.when),
        or_after=fault.or_after,
        heal_when=tuple(_condition(place, one) for one in fault.heal_when),
        heal_or_after=fault.heal_after,
    )


def _replica(place: Place, broker: int) -> int | None:
    """Return the number of a broker's replica; None if it has none, or nobody knows."""
    replicas = _replicas(place)
    return replicas.index(broker) if broker in replicas else None


def _replicas(place: Place) -> Sequence[int]:
    """Return the brokers of the partition's replicas, the preferred leader first, if known."""
    assignment = place.scenario.topics[place.topic].assignment
    return assignment[place.partition] if assignment else ()


def _roles(place: Place, index: int, effects: Sequence[tuple[Effect, ...]]) -> list[Targets]:
    """Return the roles that a fault's target may have in one partition, as alternatives.

    Empty if the model cannot describe them.
    """
    target = place.scenario.faults[index].target
    if not effects[index] or target.of_controllers:
        return [frozenset()]
    if target.role == "brokers" and _replicas(place):
        numbers = (_replica(place, broker) for broker in set(target.brokers))
        return [frozenset(number for number in numbers if number is not None)]
    if (target.topic, target.partition) == (place.topic, place.partition):
        return [frozenset({Role.LEADER if target.role == "leader" else Role.FOLLOWERS})]
    if _target_size(place, target) == place.scenario.cluster.brokers:
        return [frozenset(range(place.replicas))]
    if _has_same_target(place.scenario.faults, index, effects):
        return [frozenset({Role.SAME})]
    return _of_unknown_roles(place, _target_size(place, target))


def _of_unknown_roles(place: Place, count: int) -> list[Targets]:
    """Return the roles that some brokers may have of which nobody knows which replicas they are."""
    if count == 1:
        return [frozenset({Role.ANY_ONE})]
    if place.scenario.cluster.brokers == place.replicas == 3:  # two of three
        return [frozenset({Role.FOLLOWERS}), frozenset({Role.LEADER, Role.ANY_ONE})]
    return []  # the model has no role for several of many brokers


def _target_size(place: Place, target: TargetSpec) -> int:
    match target.role:
        case "leader":
            return 1
        case "followers":
            return every_topic(place.scenario)[target.topic].replication_factor - 1
        case "brokers":
            return len(set(target.brokers))
    return place.scenario.cluster.brokers


def _has_same_target(
    faults: Sequence[Fault], index: int, effects: Sequence[tuple[Effect, ...]]
) -> bool:
    """Whether a fault certainly hits the same brokers as the fault before it.

    The same target text means the same brokers if it names them, or as long as no fault moved a
    leadership.
    """
    if not index or faults[index - 1].target != faults[index].target or not effects[index - 1]:
        return False
    return faults[index].target.role == "brokers" or all(map(keeps_leaders, effects[:index]))


def _condition(place: Place, condition: Condition) -> Abstract:
    if len(condition.alternatives) > 1:
        return AnyOf(alternatives=tuple(_condition(place, one) for one in condition.alternatives))
    match condition:
        case ProgressIs(outcome=outcome, more=more):
            return Progress(outcome=outcome, more=more)
        case After(seconds=seconds):
            return Elapsed(seconds=seconds)
        case FaultHas(fault=name, event=event):
            return _fault_event(place, name, event)
        case IsrIs() | IsrIsExactly() | LeaderChanges() | LeaderIs() if (
            condition.topic,
            condition.partition,
        ) == (place.topic, place.partition):
            return _of_partition(place, condition)
    return AnyTime()


def _of_partition(place: Place, condition: Condition) -> Abstract:
    match condition:
        case IsrIs(op=op, size=size):
            return IsrSize(op=op, size=size)
        case LeaderChanges():
            return LeaderChanged()
        case LeaderIs(op=op, broker=None):
            return Leads(replica=None, equal=op == "==")
        case LeaderIs(op=op, broker=int(broker)) if broker in _replicas(place):
            return Leads(replica=_replica(place, broker), equal=op == "==")
        case IsrIsExactly(members=members) if set(members) <= set(_replicas(place)):
            numbers = (_replica(place, broker) for broker in members)
            return Members(members=frozenset(one for one in numbers if one is not None))
    return AnyTime()


def _fault_event(place: Place, name: str, event: str) -> Abstract:
    """Return the event of every fault that has this name or id: one of them is enough."""
    named = [n for n, one in enumerate(place.scenario.faults) if name in (one.id, one.name)]
    events = tuple(FaultEvent(fault=n, event=event) for n in named)  # type: ignore[arg-type]
    return events[0] if len(events) == 1 else AnyOf(alternatives=events)
