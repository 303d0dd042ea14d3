"""A schedule for the exact search: its orders, effects on one partition, and possible targets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ackproof.prediction.bounds import hit_of
from ackproof.scenario.model import Scenario
from ackproof_faults import Fault
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
from ackproof_faults.conditions.trigger import Conditions
from ackproof_faults.schedule.blocks import ChoiceBlock, ParallelBlock, RandomBlock, SequenceBlock
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
#: The same for an order of blocks, of which each is searched.
_MAX_IN_BLOCKS = 4
_MAX_ORDERS = 6

Targets = frozenset[Role | int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """A fault in one order of a schedule.

    after: the faults of the block before it, by index, which have recovered when it begins. loose:
    the time and the changes that its conditions count from are not those of the fault before it, so
    such conditions may hold at any time. in_block: it is healed with its block at the latest.
    """

    fault: Fault
    after: tuple[int, ...] = ()
    loose: bool = False
    in_block: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """One order in which faults may begin; `after` and `loose` hold for the next step."""

    steps: tuple[_Step, ...] = ()
    after: tuple[int, ...] = ()
    loose: bool = False

    def with_fault(self, fault: Fault) -> _Order:
        step = _Step(fault=fault, after=self.after, loose=self.loose)
        return _Order(steps=(*self.steps, step))

    def with_block(self, whole: _Order) -> _Order:
        """Return the order `whole`, which extends this one by a block: the next step awaits it."""
        before = len(self.steps)
        block = (replace(step, in_block=True) for step in whole.steps[before:])
        steps = (*self.steps, *block)
        return _Order(steps=steps, after=tuple(range(before, len(steps))), loose=True)


def _orders(order: _Order, steps: Sequence[Any]) -> Iterator[_Order]:
    """Yield the orders that begin with `order` and continue with the steps."""
    if not steps:
        yield order
        return
    for extended in _extended(order, steps[0]):
        yield from _orders(extended, steps[1:])


def _extended(order: _Order, step: Any) -> Iterator[_Order]:
    match step:
        case SequenceBlock():
            if step.probability < 1:
                yield order
            turns = [order]
            for _ in range(step.repeat or 1):
                turns = [
                    begun.with_block(whole)
                    for begun in turns
                    for whole in _orders(begun, step.sequence)
                ]
            yield from turns
        case ChoiceBlock():
            for one in step.one_of:
                for whole in _extended(order, one):
                    yield order.with_block(whole)
        case ParallelBlock():
            for branches in itertools.permutations(step.parallel):
                whole = order
                for branch in branches:
                    whole = replace(whole.with_fault(branch), loose=True)
                yield order.with_block(whole)
        case _:
            yield order.with_fault(step)


def _unsupported_blocks(steps: Sequence[Any]) -> Iterator[str]:
    """Yield the blocks of which the search does not support every order."""
    for step in steps:
        match step:
            case RandomBlock():
                yield "random blocks"
            case SequenceBlock(probability=probability):
                counted = not (step.every or step.for_ is not None or step.until)
                if step.loops and (not counted or probability < 1):
                    yield "loops without a fixed number of turns"
                yield from _unsupported_blocks(step.sequence)
            case ChoiceBlock():
                yield from _unsupported_blocks(step.one_of)
            case ParallelBlock(parallel=branches):
                if not all(isinstance(branch, Fault) for branch in branches):
                    yield "parallel blocks of blocks"
                elif any(
                    isinstance(effect, Ends) and effect.clean
                    for branch in branches
                    for effect in branch.effects
                ):
                    yield "controlled shutdowns beside other faults"


def exact_effects(
    scenario: Scenario, partition: Partition, fault: Fault
) -> tuple[Effect, ...] | None:
    """Return a fault's effects that the search supports; None if it does not support them all."""
    if fault.target.of_controllers:
        return _of_controllers(scenario, partition, fault)
    hit = hit_of(scenario, partition, fault)
    each = [effect.exact(hit) for effect in fault.effects]
    known = [effects for effects in each if effects is not None]
    return tuple(itertools.chain(*known)) if len(known) == len(each) else None


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
    faults = scenario.every_fault
    if block := next(_unsupported_blocks(scenario.faults), ""):
        return block
    orders = list(itertools.islice(_orders(_Order(), scenario.faults), _MAX_ORDERS + 1))
    if len(orders) > _MAX_ORDERS:
        return f"schedules with more than {_MAX_ORDERS} orders"
    listed = all(isinstance(step, Fault) for step in scenario.faults)
    most = _MAX_FAULTS if listed else _MAX_IN_BLOCKS
    if (count := max(len(order.steps) for order in orders)) > most:
        return f"schedules of {count} faults (at most {most} are searched)"
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
    """Yield every reading of the schedule for one partition: its orders, who the targets may be.

    Yields nothing if the search does not support the schedule.
    """
    if unsupported(scenario, partition):
        return
    readers = [
        _Reader(scenario, partition, order.steps) for order in _orders(_Order(), scenario.faults)
    ]
    roles = [[reader.roles(index) for index in range(len(reader.steps))] for reader in readers]
    if not all(itertools.chain(*roles)):
        return  # in some order the search cannot describe a target
    for reader, targets in zip(readers, roles, strict=True):
        for chosen in itertools.product(*targets):
            yield tuple(map(reader.injection, reader.steps, reader.effects, chosen))


class _Reader:
    """An order of a schedule that the search supports, and the partition that it is read for."""

    def __init__(self, scenario: Scenario, partition: Partition, steps: Sequence[_Step]) -> None:
        self._scenario = scenario
        self._partition = partition
        self.steps = steps
        self._faults = [step.fault for step in steps]
        self.effects = [exact_effects(scenario, partition, one) or () for one in self._faults]

    def injection(self, step: _Step, effects: tuple[Effect, ...], targets: Targets) -> Injection:
        fault = step.fault
        when = self._conditions(step, fault.when)
        if step.loose and (fault.or_after is not None or AnyTime() in when):
            when = (AnyTime(),)
        recovered = (FaultEvent(fault=index, event="recovered") for index in step.after)
        with_block: tuple[SearchedCondition, ...] = (AnyTime(),)
        return Injection(
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

    def _conditions(self, step: _Step, conditions: Conditions) -> tuple[SearchedCondition, ...]:
        return tuple(self._condition(step, condition) for condition in conditions)

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
            case "any":
                return min(target.count, self._scenario.cluster.brokers)
        return self._scenario.cluster.brokers

    def _has_same_target(self, index: int) -> bool:
        """Whether a fault certainly hits the same brokers as the fault before it.

        The same target text means the same brokers if it names them, or as long as no fault moved
        a leadership.
        """
        faults = self._faults
        target = faults[index].target
        if not index or faults[index - 1].target != target or target.role == "any":
            return False
        if not self.effects[index - 1]:
            return False
        named = target.role == "brokers"
        return named or all(map(_keeps_leaders, self.effects[:index]))

    def _condition(self, step: _Step, condition: Condition) -> SearchedCondition:
        if len(condition.alternatives) > 1:
            each = (self._condition(step, one) for one in condition.alternatives)
            return AnyOf(alternatives=tuple(each))
        match condition:
            case _ if _is_free(step, condition):
                pass
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
        if not events:  # it is not in this order
            return AnyTime()
        return events[0] if len(events) == 1 else AnyOf(alternatives=events)


def _is_free(step: _Step, condition: Condition) -> bool:
    """Whether a condition may hold at any time, because of a block that the step is in or after.

    It counts from another moment, or a fault of another block has the same name.
    """
    match condition:
        case After() | LeaderChanges() | ProgressIs(more=True):
            return step.loose
        case FaultHas():
            return step.in_block
    return False


def _keeps_leaders(effects: tuple[Effect, ...]) -> bool:
    """Whether no partition gets another leader by these effects."""
    return all(
        isinstance(effect, Cuts) and effect.channels == ("replication",) for effect in effects
    )
