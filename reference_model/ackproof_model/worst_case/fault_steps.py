"""What a fault of a schedule does when it begins, and when its conditions hold."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ackproof_model.adversary.state import State
from ackproof_model.adversary.successors import with_brokers
from ackproof_model.effects import Cuts, Effect, Elects, Ends, LateMetadata, Reassigns, Stalls
from ackproof_model.kafka.partition_change import Election
from ackproof_model.prediction.fault_schedule import (
    AnyOf,
    Condition,
    Elapsed,
    ElrIs,
    FaultEvent,
    Injection,
    IsrIs,
    IsrSize,
    LeaderIs,
    Role,
)
from ackproof_model.replication import replica as actions
from ackproof_model.replication.controller import (
    begin_shutdown,
    can_begin_shutdown,
    can_reassign,
    change,
    reassign,
    with_version,
)
from ackproof_model.replication.policy import Policy
from ackproof_model.replication.state import NOBODY, STOPPING, Controller, members


class Progress(NamedTuple):
    """How far a schedule is: how many faults have begun, which are healed, whom each hit.

    passed: the held connections, as pairs, on which no fetch is on its way (any more).
    """

    begun: int
    healed: int
    targets: tuple[int, ...]
    passed: int


def hold(
    controller: Controller, now: Progress, conditions: Iterable[Condition], after: float | None
) -> bool:
    """Whether conditions may hold. Those on clients, time or logs may at any time."""
    return after is not None or all(_holds(controller, now, one) for one in conditions)


def _holds(controller: Controller, now: Progress, condition: Condition) -> bool:
    met = True  # a condition on clients, time or logs
    match condition:
        case IsrSize() | IsrIs() | ElrIs() | LeaderIs():
            met = condition.met_by(controller)
        case FaultEvent(fault=fault, event="began"):
            met = fault < now.begun
        case FaultEvent(fault=fault, event=event):
            hit = now.targets[fault] if fault < len(now.targets) else 0
            met = bool(now.healed >> fault & 1)
            met = met and (event == "ended" or not hit & ~controller.isr)
        case AnyOf(alternatives=alternatives):
            met = any(_holds(controller, now, one) for one in alternatives)
    return met


def applied(policy: Policy, state: State, effect: Effect, mask: int) -> Iterator[State]:
    """Yield the states after an effect, which reads no other brokers than those it hits."""
    controller = after = state.controller
    match effect:
        case Ends(clean=True):
            yield _shut_down(policy, state, mask)
            return
        case Ends():
            yield from _ended(policy, state, effect, mask)
            return
        case Elects(unclean=unclean) if not (unclean and controller.leader != NOBODY):
            election = Election.UNCLEAN if unclean else Election.PREFERRED
            after = change(policy, controller, controller.isr, election=election)
        case Reassigns(to=target) if can_reassign(policy, controller, target):
            after = reassign(policy, controller, target)
    yield state._replace(controller=with_version(controller, after))


def _shut_down(policy: Policy, state: State, mask: int) -> State:
    for number in members(mask):
        broker = state.brokers[number]
        if can_begin_shutdown(broker):
            stopping = begin_shutdown(policy, state.controller, number)
            changed = with_version(state.controller, stopping)
            state = with_brokers(state, {number: broker._replace(status=STOPPING)}, changed)
    return state


def _ended(policy: Policy, state: State, effect: Ends, mask: int) -> Iterator[State]:
    """Yield the states in which the disk of each broker that ends has what it may have."""
    ending = [number for number in members(mask) if actions.can_end(state.brokers[number])]
    disks = []
    for number in ending:
        end = len(state.brokers[number].log)
        lengths = {"kept": [end], "empty": [0]}.get(effect.log, range(end + 1))
        down = actions.ended(policy, state.brokers[number])
        disks.append(list(actions.crashed(down, lengths)))
    for chosen in itertools.product(*disks):
        yield with_brokers(state, dict(zip(ending, chosen, strict=True)))


def begins_in_time(injection: Injection) -> bool:
    """Whether a fault begins, whatever happens."""
    certain = injection.or_after is not None or all(
        isinstance(one, Elapsed) or (isinstance(one, FaultEvent) and one.event == "began")
        for one in injection.when
    )
    return certain and Role.LEADER not in injection.targets


def refuses_shutdown(effect: Effect) -> bool:
    """Whether a broker may not get leave to end, or others may not read that it leads nothing."""
    cut = isinstance(effect, Cuts) and "controllers" in effect.channels
    return cut or isinstance(effect, Stalls | LateMetadata)


def keeps_metadata(effect: Effect) -> bool:
    return refuses_shutdown(effect) or isinstance(effect, Ends)
