"""States without the parts that can no longer change the outcome.

Once all faults have happened, a running leader that the controllers hear stays leader, and its log
is the final one. What the other brokers do then only takes time, unless acks wait for a fault to
end, or an old leader still answers. So such states are replaced by one of `lone_leader`.
"""

from __future__ import annotations

from ackproof_model.configuration import Truncation
from ackproof_model.replication import replica
from ackproof_model.replication.model import Model
from ackproof_model.replication.state import (
    DROPPED,
    NOBODY,
    STARTING,
    UNSENT,
    UP,
    Client,
    State,
    members,
)


def awaits_heals_only(model: Model, state: State) -> bool:
    """Whether every step that is left can as well be taken once the schedule has healed its faults.

    Healing them changes nothing any more, and waits for nothing that a step changes. Whether the
    partition can be read and written does not change either. A new leader that hears of nobody
    else may as well learn first, which traces tell in this order.
    """
    return (
        state.run.alone
        and state.brokers[state.controller.leader].leader != NOBODY
        and state.harm == model.unharmed
        and state.controller.isr == model.policy.everyone
        and not model.heals_by_progress
        and not model.ended(state)
    )


def without_past_records(model: Model, client: Client, past: int) -> Client:
    """Return the clients with each unsent record of the first `past` as one that failed.

    Neither is ever sent. Only a condition that counts what is sent tells them apart.
    """
    if model.counts_sent or UNSENT not in client.status[:past]:
        return client
    status = tuple(DROPPED if one == UNSENT else one for one in client.status[:past])
    return client._replace(status=status + client.status[past:])


def ends_small(model: Model, state: State, old: int) -> bool | None:
    """Return `small` of `lone_leader.alone`; None if more than leaders and clients matters.

    The ISR is then full, or the leader alone: too small for acks=all, until the others caught up.
    """
    if state.run.alone:
        return state.controller.isr != model.policy.everyone
    if not _settles(model, state, old):
        return None
    return _is_small(model, state) and (model.acks == "all" or not model.ended(state))


def has_final_leader(model: Model, state: State) -> bool:
    run, leader = state.run, state.controller.leader
    if leader == NOBODY or not (run.over or run.phase == model.faults):
        return False
    harm = state.harm
    return state.brokers[leader].status == UP and not (harm.stalled | harm.away) >> leader & 1


def old_leaders(state: State) -> int:
    """Return the brokers that lead as far as they know, but not as the controllers know."""
    leader, brokers = state.controller.leader, enumerate(state.brokers)
    return sum(1 << n for n, broker in brokers if n != leader and replica.leads(broker, n))


def _is_small(model: Model, state: State) -> bool:
    return state.controller.isr.bit_count() < model.policy.min_isr


def _settles(model: Model, state: State, old: int) -> bool:
    """Whether what is left happens between clients, the final leader and the leaders `old`."""
    if old and not _deposed_for_good(model, state, old):
        return False
    ended = model.ended(state)
    if (model.acks == "all" or not ended) and not _acks_for_good(model, state, old):
        return False
    returning = _returning(state)
    if not _recover(model, state, returning & ~old):
        return False
    if not _is_small(model, state):
        return True
    grows = ended or returning.bit_count() >= model.policy.min_isr
    return grows and (model.acks != "all" or _knows_isr(state))


def _deposed_for_good(model: Model, state: State, old: int) -> bool:
    """Whether old leaders may only append and answer what is sent to them, and be fetched from.

    Their high watermarks wait for the final leader. So what these pass later is in its log, and it
    does not matter who reads it.
    """
    if state.harm != model.unharmed:
        return False
    if model.policy.profile.truncation is not Truncation.ON_FETCH:
        return False  # the final leader might truncate to its own high watermark
    if any(broker.status != UP for broker in state.brokers):
        return False
    leader = state.controller.leader
    final = state.brokers[leader].log
    for number in members(old):
        broker = state.brokers[number]
        fetched = max(0, broker.remote[leader])
        if not broker.maximal >> leader & 1 or broker.log[:fetched] != final[:fetched]:
            return False
    return True


def _acks_for_good(model: Model, state: State, old: int) -> bool:
    """Whether the final leader's acks=all wait for nothing that a fault hinders."""
    leader, isr, harm = state.controller.leader, state.controller.isr, state.harm
    if harm.unreachable(leader) or harm.settings or not harm.quorum:
        return False
    if any(state.brokers[number].status != UP for number in members(isr)):
        return False
    if (harm.stalled | harm.away) & isr:
        return False
    answer = old | 1 << leader
    return model.acks != "all" or all(
        status < model.appended or answer >> status - model.appended & 1
        for status in state.client.status
    )


def _returning(state: State) -> int:
    """Return the replicas that the final leader adds to the ISR by steps that wait for no timer."""
    harm, leader = state.harm, state.controller.leader
    back = 0
    for number, broker in enumerate(state.brokers):
        starts = broker.status == STARTING and state.controller.fenced >> number & 1
        back |= (broker.status == UP or starts) << number
    return back & ~(replica.silent(state, leader) | harm.away)


def _recover(model: Model, state: State, returning: int) -> bool:
    """Whether each fault whose recovery others await will recover, if healed."""
    run = state.run
    return not any(
        run.targets[awaited] & ~returning
        for fault, awaited in model.awaited_recoveries
        if awaited < run.injected and not run.healed >> fault & 1
    )


def _knows_isr(state: State) -> bool:
    """Whether the final leader, if it leads as far as it knows, knows the ISR."""
    controller = state.controller
    broker = state.brokers[controller.leader]
    if broker.leader != controller.leader:
        return True
    return broker.epoch == controller.epoch and broker.isr == broker.maximal == controller.isr
