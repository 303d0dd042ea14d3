"""Schedules as input of the exact search: effects on one partition, targets and conditions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import ackproof_model as model
from ackproof.prediction.orders import Step, orders, unsupported_blocks
from ackproof.prediction.worst_case import hit_of
from ackproof.scenario.model import Scenario
from ackproof_faults import Fault
from ackproof_faults.conditions.condition import Condition
from ackproof_faults.conditions.kinds import (
    After,
    ElrIsExactly,
    FaultHas,
    IsrIs,
    IsrIsExactly,
    LeaderChanges,
    LeaderIs,
    ProgressIs,
)
from ackproof_faults.conditions.targets import TargetSpec
from ackproof_faults.conditions.trigger import Conditions
from ackproof_model.effects import Hit, Intercepts, Partition, Reassigns

#: Most faults of a schedule without blocks; with more, the search would take too long.
_MAX_FAULTS = 8
#: The same for a schedule with blocks, of which every order is searched.
_MAX_IN_BLOCKS = 4
_MAX_ORDERS = 6
#: The same for the search that only keeps the order of the faults.
_MAX_IN_ORDER = 12
#: Effects that only that search follows.
_IN_ORDER_ONLY = (model.LateFetches, model.LateIsrChanges, model.LateMetadata, Reassigns)

Targets = frozenset[model.Role | int]


def exact_effects(
    scenario: Scenario, partition: Partition, fault: Fault
) -> tuple[model.Effect, ...] | None:
    """Return a fault's effects that the search supports; None if it does not support them all."""
    if fault.target.of_controllers:
        return _of_controllers(scenario, partition, fault)
    return _exact(fault, _hit(scenario, partition, fault))


def _exact(fault: Fault, hit: Hit) -> tuple[model.Effect, ...] | None:
    each = [effect.exact(hit) for effect in fault.effects]
    known = [effects for effects in each if effects is not None]
    return tuple(itertools.chain(*known)) if len(known) == len(each) else None


def _hit(scenario: Scenario, partition: Partition, fault: Fault) -> Hit:
    hit = hit_of(scenario, partition, fault)
    return replace(hit, numbers=_numbers(scenario, partition))


def _numbers(scenario: Scenario, partition: Partition) -> tuple[int, ...]:
    """Return the brokers as the search numbers them: those of the replicas, then their targets.

    Empty if Kafka chooses the brokers of the replicas.
    """
    targets = (
        effect.to
        for fault in scenario.every_fault
        for effect in fault.effects
        if isinstance(effect, Reassigns) and partition.is_among(effect.topic, effect.partition)
    )
    moved = itertools.chain(partition.assigned, *targets)
    return tuple(dict.fromkeys(moved)) if partition.assigned else ()


def _of_controllers(
    scenario: Scenario, partition: Partition, fault: Fault
) -> tuple[model.Effect, ...] | None:
    """Return `QuorumLost` if the fault ends a majority of dedicated controllers, else None.

    If other controllers take over, brokers' sessions are renewed, which the search does not model.
    Requests of brokers only may be late.
    """
    cluster = scenario.cluster
    if all(isinstance(effect, Intercepts) for effect in fault.effects):
        others = any(_sends(scenario, effect) for effect in fault.effects)
        return None if others else _exact(fault, _hit(scenario, partition, fault))
    whole = fault.target.role == "majority of controllers" or cluster.controllers == 1
    dedicated = not (cluster.combined or partition.profile.zookeeper)
    if whole and dedicated and all(map(_only_absent, fault.effects)):
        return (model.QuorumLost(),)
    return None


def _sends(scenario: Scenario, effect: model.Effect) -> bool:
    """Whether a controller, too, may send the requests of an effect."""
    cluster = scenario.cluster
    ids = (f"raft-client-{controller}" for controller in cluster.controller_ids)
    clients = any(isinstance(effect, Intercepts) and one.startswith(effect.client) for one in ids)
    return cluster.combined or clients


def _only_absent(effect: model.Effect) -> bool:
    """Whether controllers only stop until the fault is healed, with all that they committed."""
    if isinstance(effect, model.Ends) and effect.keeps_metadata:
        effect = replace(effect, log="kept")
    return effect.only_absent


def unsupported(scenario: Scenario, partition: Partition) -> str:
    """Return the part of the schedule that the exact search does not support; '' if it does."""
    faults = scenario.every_fault
    if block := next(unsupported_blocks(scenario.faults), ""):
        return block
    few = list(itertools.islice(orders(scenario.faults), _MAX_ORDERS + 1))
    if len(few) > _MAX_ORDERS:
        return f"schedules with more than {_MAX_ORDERS} orders"
    listed = all(isinstance(step, Fault) for step in scenario.faults)
    most = _MAX_FAULTS if listed else _MAX_IN_BLOCKS
    if (count := max(len(order.steps) for order in few)) > most:
        return f"schedules of {count} faults (at most {most} are searched)"
    if not _keeps_combined_quorum(scenario):
        return "faults on brokers that are also controllers"
    effects: list[model.Effect] = []
    unknown = []
    for fault in faults:
        known = exact_effects(scenario, partition, fault)
        effects += known or ()
        beyond = known is None or any(isinstance(one, _IN_ORDER_ONLY) for one in known)
        unknown += [fault.name] if beyond else []
    return f"the fault {min(unknown)} here" if unknown else _unsupported_together(effects)


def _keeps_combined_quorum(scenario: Scenario) -> bool:
    """Whether faults on brokers that are also controllers affect only these brokers.

    That holds for stopped processes, if a majority of the controllers is never hit: the others take
    over. Brokers' sessions then begin anew, which only delays the steps of the search.
    """
    cluster = scenario.cluster
    faults = [fault for fault in scenario.every_fault if fault.touches_brokers]
    if not cluster.combined or not faults:
        return True
    away = all(
        effect.only_absent and not (isinstance(effect, model.Ends) and effect.clean)
        for fault in faults
        for effect in fault.effects
    )
    listed = all(isinstance(step, Fault) for step in scenario.faults)
    hit = sum(_target_size(scenario, fault.target) for fault in faults)
    return away and listed and hit <= (int(cluster.controllers) - 1) // 2


def _target_size(scenario: Scenario, target: TargetSpec) -> int:
    match target.role:
        case "leader" | "share coordinator":
            return 1
        case "followers":
            return scenario.every_topic[target.topic].replication_factor - 1
        case "brokers":
            return len(set(target.brokers))
        case "any":
            return min(target.count, scenario.cluster.brokers)
    return scenario.cluster.brokers


def _unsupported_together(effects: Sequence[model.Effect]) -> str:
    if model.QuorumLost() in effects and any(isinstance(one, model.Ends) for one in effects):
        # Restarted controllers have no sessions: a broker may lead again without being fenced.
        return "brokers that end while the controllers may have ended, too"
    deaf = any(
        isinstance(one, model.Stalls)
        or (isinstance(one, model.Cuts) and one.channels == ("controllers",))
        for one in effects
    )
    if deaf and any(isinstance(one, model.Configures) for one in effects):
        return "a change of settings of which some broker does not hear"
    return ""


def schedules(scenario: Scenario, partition: Partition) -> Iterator[tuple[model.Injection, ...]]:
    """Yield the schedule for one partition, with every order of faults and role of targets.

    Yields nothing if the search does not support the schedule.
    """
    if not unsupported(scenario, partition):
        yield from _each(scenario, partition)


def in_order(scenario: Scenario, partition: Partition) -> Iterator[tuple[model.Injection, ...]]:
    """Yield the schedule as `schedules` does, for the search that only keeps its order.

    Yields nothing if that search does not support the schedule either.
    """
    faults = scenario.every_fault
    listed = all(isinstance(step, Fault) for step in scenario.faults)
    if not listed or len(faults) > _MAX_IN_ORDER or not _keeps_combined_quorum(scenario):
        return
    if all(exact_effects(scenario, partition, fault) is not None for fault in faults):
        yield from _each(scenario, partition)


def _each(scenario: Scenario, partition: Partition) -> Iterator[tuple[model.Injection, ...]]:
    ordered = [_Ordered(scenario, partition, order.steps) for order in orders(scenario.faults)]
    roles = [[order.roles(index) for index in range(len(order.steps))] for order in ordered]
    if not all(itertools.chain(*roles)):
        return  # in some order the search cannot describe a target
    for order, targets in zip(ordered, roles, strict=True):
        for chosen in itertools.product(*targets):
            yield tuple(map(order.injection, order.steps, order.effects, chosen))


class _Ordered:
    """The faults of a schedule in one order, for one partition."""

    def __init__(self, scenario: Scenario, partition: Partition, steps: Sequence[Step]) -> None:
        self._scenario = scenario
        self._partition = partition
        self._numbers = _numbers(scenario, partition)
        self.steps = steps
        self._faults = [step.fault for step in steps]
        self.effects = [exact_effects(scenario, partition, one) or () for one in self._faults]

    def injection(
        self, step: Step, effects: tuple[model.Effect, ...], targets: Targets
    ) -> model.Injection:
        fault = step.fault
        when = self._conditions(step, fault.when)
        if step.loose and (fault.or_after is not None or model.AnyTime() in when):
            when = (model.AnyTime(),)
        recovered = (model.FaultEvent(fault=index, event="recovered") for index in step.after)
        with_block: tuple[model.Condition, ...] = (model.AnyTime(),)
        return model.Injection(
            fault=fault.name,
            effects=effects,
            targets=targets,
            when=(*when, *recovered),
            or_after=None if step.loose else fault.or_after,
            heal_when=with_block
            if step.in_block and not fault.ends_by_itself
            else self._conditions(replace(step, loose=False), fault.heal_when),
            heal_or_after=fault.heal_after,
        )

    def _conditions(self, step: Step, conditions: Conditions) -> tuple[model.Condition, ...]:
        return tuple(self._condition(step, condition) for condition in conditions)

    def roles(self, index: int) -> list[Targets]:
        """Return the alternative roles of a fault's target in the partition.

        Empty if the search cannot describe them.
        """
        target, numbers = self._faults[index].target, self._numbers
        if not self.effects[index] or target.of_controllers:
            return [frozenset()]
        if target.role == "brokers" and numbers:
            return [frozenset(numbers.index(one) for one in target.brokers if one in numbers)]
        if self._partition.is_among(target.topic, target.partition):
            return [
                frozenset({model.Role.LEADER if target.role == "leader" else model.Role.FOLLOWERS})
            ]
        size = _target_size(self._scenario, target)
        if size == self._scenario.cluster.brokers:
            return [frozenset(range(self._partition.replicas))]
        if self._has_same_target(index):
            return [frozenset({model.Role.SAME})]
        return self._unknown_roles(size)

    def _unknown_roles(self, count: int) -> list[Targets]:
        """Return the alternative roles of `count` unknown brokers."""
        if count == 1:
            return [frozenset({model.Role.ANY_ONE})]
        if self._scenario.cluster.brokers == self._partition.replicas == 3:  # two of three
            return [
                frozenset({model.Role.FOLLOWERS}),
                frozenset({model.Role.LEADER, model.Role.ANY_ONE}),
            ]
        return []  # the search has no role for several of many brokers

    def _has_same_target(self, index: int) -> bool:
        """Whether a fault certainly hits the same brokers as the fault before it.

        Equal targets are the same brokers if they are broker ids, or if no fault has moved a
        leader.
        """
        faults = self._faults
        target = faults[index].target
        if not index or faults[index - 1].target != target or target.role == "any":
            return False
        if not self.effects[index - 1]:
            return False
        named = target.role == "brokers"
        return named or all(map(_keeps_leaders, self.effects[:index]))

    def _condition(self, step: Step, condition: Condition) -> model.Condition:
        if len(condition.alternatives) > 1:
            each = (self._condition(step, one) for one in condition.alternatives)
            return model.AnyOf(alternatives=tuple(each))
        match condition:
            case _ if _is_free(step, condition):
                pass
            case ProgressIs(outcome=outcome, more=more):
                return model.Progress(outcome=outcome, more=more)
            case After(seconds=seconds):
                return model.Elapsed(seconds=seconds)
            case FaultHas(fault=name, event=event):
                return self._fault_event(name, event)
            case IsrIs() | IsrIsExactly() | ElrIsExactly() | LeaderChanges() | LeaderIs() if (
                self._partition.is_among(condition.topic, condition.partition)
            ):
                return self._of_partition(condition)
        return model.AnyTime()

    def _of_partition(self, condition: Condition) -> model.Condition:
        numbers = self._numbers
        match condition:
            case IsrIs(op=op, number=size):
                return model.IsrSize(op=op, size=size)
            case LeaderChanges():
                return model.LeaderChanged()
            case LeaderIs(op=op, broker=None):
                return model.LeaderIs(replica=None, equal=op == "==")
            case LeaderIs(op=op, broker=int(broker)) if broker in numbers:
                return model.LeaderIs(replica=numbers.index(broker), equal=op == "==")
            case IsrIsExactly(members=members) | ElrIsExactly(members=members) if numbers and set(
                members
            ) <= set(numbers):
                known = frozenset(map(numbers.index, members))
                isr = isinstance(condition, IsrIsExactly)
                return model.IsrIs(members=known) if isr else model.ElrIs(members=known)
        return model.AnyTime()

    def _fault_event(self, name: str, event: str) -> model.Condition:
        named = [n for n, one in enumerate(self._faults) if name in (one.id, one.name)]
        if event == "began" and any(self._faults[n].patience_s for n in named):
            return model.AnyTime()  # the next faults do not wait until it has begun
        events = tuple(model.FaultEvent(fault=n, event=event) for n in named)  # type: ignore[arg-type]
        if not events:  # the fault is not in this order
            return model.AnyTime()
        return events[0] if len(events) == 1 else model.AnyOf(alternatives=events)


def _is_free(step: Step, condition: Condition) -> bool:
    """Whether a block before or around the step makes it unknown when the condition holds.

    The condition counts from another moment, or a fault of another block has the same name.
    """
    match condition:
        case After() | LeaderChanges() | ProgressIs(more=True):
            return step.loose
        case FaultHas():
            return step.in_block
    return False


def _keeps_leaders(effects: tuple[model.Effect, ...]) -> bool:
    return all(
        isinstance(effect, model.Cuts) and effect.channels == ("replication",) for effect in effects
    )
