"""A schedule for the exact search: effects on one partition, and who the targets may be."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ackproof.scenario.model import Scenario
from ackproof_faults import Fault, plain
from ackproof_faults.conditions.condition import Condition
from ackproof_faults.conditions.kinds import (
    After,
    FaultHas,
    IsrIs,
    IsrIsExactly,
    LeaderChanges,
    LeaderIs,
    ProgressIs,
)
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
from ackproof_model import Condition as SearchedCondition
from ackproof_model import IsrIs as SearchedIsr
from ackproof_model import LeaderIs as SearchedLeader
from ackproof_model.effects import Partition

#: Every fault adds records and interleavings; with more faults the search would not end.
_MAX_FAULTS = 8

Targets = frozenset[Role | int]


def exact_effects(
    scenario: Scenario, partition: Partition, fault: Fault
) -> tuple[Effect, ...] | None:
    """Return a fault's effects that the search supports; None if it does not support them all."""
    if fault.target.of_controllers:
        return _of_controllers(scenario, partition, fault)
    found = [effect.exact(partition) for effect in fault.effects]
    known = [effects for effects in found if effects is not None]
    return tuple(itertools.chain(*known)) if len(known) == len(found) else None


def _of_controllers(
    scenario: Scenario, partition: Partition, fault: Fault
) -> tuple[Effect, ...] | None:
    """Return the effects of a fault that takes the metadata quorum its majority.

    Where other controllers take over, sessions are renewed meanwhile, which the search leaves out.
    """
    cluster = scenario.cluster
    whole = fault.target.role == "majority of controllers" or cluster.controllers == 1
    dedicated = not (cluster.combined or partition.profile.zookeeper)
    if whole and dedicated and all(effect.only_absent for effect in fault.effects):
        return (QuorumLost(),)
    return None


def unsupported(scenario: Scenario, partition: Partition) -> str:
    """Return what in the schedule the exact search does not support; '' if nothing."""
    faults = scenario.faults
    if not plain(faults):
        return "schedules with blocks of steps or random targets"
    if len(faults) > _MAX_FAULTS:
        return f"schedules of {len(faults)} faults (at most {_MAX_FAULTS} are searched)"
    if scenario.cluster.combined and any(fault.touches_brokers for fault in faults):
        return "faults on brokers that are also controllers"
    effects: list[Effect] = []
    unknown = []
    for fault in faults:
        known = exact_effects(scenario, partition, fault)
        effects += known or ()
        unknown += [fault.name] if known is None else []
    return f"the fault {min(unknown)} here" if unknown else _unsupported_together(effects)


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


def schedules(scenario: Scenario, partition: Partition) -> Iterator[tuple[Injection, ...]]:
    """Yield every reading of the schedule for one partition: who the targets may be.

    Yields nothing if the search does not support the schedule.
    """
    if unsupported(scenario, partition):
        return
    reader = _Reader(scenario, partition)
    roles = [reader.roles(index) for index in range(len(scenario.faults))]
    for chosen in itertools.product(*roles):
        yield tuple(map(reader.injection, scenario.faults, reader.effects, chosen))


class _Reader:
    """A schedule that the search supports, and the partition that it is read for."""

    def __init__(self, scenario: Scenario, partition: Partition) -> None:
        self._scenario = scenario
        self._partition = partition
        self._faults: Sequence[Fault] = scenario.faults
        self.effects = [exact_effects(scenario, partition, one) or () for one in self._faults]

    def injection(self, fault: Fault, effects: tuple[Effect, ...], targets: Targets) -> Injection:
        return Injection(
            fault=fault.name,
            effects=effects,
            targets=targets,
            when=tuple(map(self._condition, fault.when)),
            or_after=fault.or_after,
            heal_when=tuple(map(self._condition, fault.heal_when)),
            heal_or_after=fault.heal_after,
        )

    def roles(self, index: int) -> list[Targets]:
        """Return the roles that a fault's target may have in the partition, as alternatives.

        Empty if the search cannot describe them.
        """
        target, assigned = self._faults[index].target, self._partition.assigned
        if not self.effects[index] or target.of_controllers:
            return [frozenset()]
        if target.role == "brokers" and assigned:
            return [frozenset(assigned.index(one) for one in target.brokers if one in assigned)]
        if self._partition.is_among(target.topic, target.partition):
            return [frozenset({Role.LEADER if target.role == "leader" else Role.FOLLOWERS})]
        if self._target_size(target) == self._scenario.cluster.brokers:
            return [frozenset(range(self._partition.replicas))]
        if self._has_same_target(index):
            return [frozenset({Role.SAME})]
        return self._unknown_roles(self._target_size(target))

    def _unknown_roles(self, count: int) -> list[Targets]:
        """Return the roles that a number of brokers may have if any of them may be hit."""
        if count == 1:
            return [frozenset({Role.ANY_ONE})]
        if self._scenario.cluster.brokers == self._partition.replicas == 3:  # two of three
            return [frozenset({Role.FOLLOWERS}), frozenset({Role.LEADER, Role.ANY_ONE})]
        return []  # the search has no role for several of many brokers

    def _target_size(self, target: TargetSpec) -> int:
        match target.role:
            case "leader":
                return 1
            case "followers":
                return self._scenario.every_topic[target.topic].replication_factor - 1
            case "brokers":
                return len(set(target.brokers))
        return self._scenario.cluster.brokers

    def _has_same_target(self, index: int) -> bool:
        """Whether a fault certainly hits the same brokers as the fault before it.

        The same target text means the same brokers if it names them, or as long as no fault moved
        a leadership.
        """
        faults = self._faults
        if not index or faults[index - 1].target != faults[index].target:
            return False
        if not self.effects[index - 1]:
            return False
        named = faults[index].target.role == "brokers"
        return named or all(map(_keeps_leaders, self.effects[:index]))

    def _condition(self, condition: Condition) -> SearchedCondition:
        if len(condition.alternatives) > 1:
            return AnyOf(alternatives=tuple(map(self._condition, condition.alternatives)))
        match condition:
            case ProgressIs(outcome=outcome, more=more):
                return Progress(outcome=outcome, more=more)
            case After(seconds=seconds):
                return Elapsed(seconds=seconds)
            case FaultHas(fault=name, event=event):
                return self._fault_event(name, event)
            case IsrIs() | IsrIsExactly() | LeaderChanges() | LeaderIs() if (
                self._partition.is_among(condition.topic, condition.partition)
            ):
                return self._of_partition(condition)
        return AnyTime()

    def _of_partition(self, condition: Condition) -> SearchedCondition:
        assigned = self._partition.assigned
        match condition:
            case IsrIs(op=op, size=size):
                return IsrSize(op=op, size=size)
            case LeaderChanges():
                return LeaderChanged()
            case LeaderIs(op=op, broker=None):
                return SearchedLeader(replica=None, equal=op == "==")
            case LeaderIs(op=op, broker=int(broker)) if broker in assigned:
                return SearchedLeader(replica=assigned.index(broker), equal=op == "==")
            case IsrIsExactly(members=members) if set(members) <= set(assigned):
                return SearchedIsr(members=frozenset(map(assigned.index, members)))
        return AnyTime()

    def _fault_event(self, name: str, event: str) -> SearchedCondition:
        """Return the event of every fault that has this name or id: one of them is enough."""
        named = [n for n, one in enumerate(self._faults) if name in (one.id, one.name)]
        events = tuple(FaultEvent(fault=n, event=event) for n in named)  # type: ignore[arg-type]
        return events[0] if len(events) == 1 else AnyOf(alternatives=events)


def _keeps_leaders(effects: tuple[Effect, ...]) -> bool:
    """Whether no partition gets another leader by these effects."""
    return all(
        isinstance(effect, Cuts) and effect.channels == ("replication",) for effect in effects
    )
