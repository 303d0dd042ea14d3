"""Removes the parts of states that can no longer change the outcome.

After all faults, a running leader that is connected to the controllers stays leader, and its log is
the final log. Steps of followers then only take time, unless acks wait for a fault to end, or an
old leader still answers. So such states are replaced by a state with only the final leader and the
old leaders (`alone`). An old leader acks records that the final log will lack, until it learns who
leads.
"""

from __future__ import annotations

import itertools

from ackproof_model.configuration import Truncation
from ackproof_model.prediction.model import Model
from ackproof_model.prediction.producer import unresolved
from ackproof_model.prediction.state import ACKED, DROPPED, UNSENT, Client, State
from ackproof_model.replication import replica
from ackproof_model.replication.state import (
    NOBODY,
    STARTING,
    UP,
    Broker,
    Controller,
    Log,
    entry,
    members,
    record_of,
)


def alone(model: Model, state: State, old: int, *, small: bool) -> State:
    """Return the state with the final leader and the leaders `old` (a bitmask).

    small: the ISR is the leader alone until the others catch up; else it is full.
    """
    leader, epoch = state.controller.leader, state.controller.epoch
    broker, count = state.brokers[leader], model.replicas
    isr = 1 << leader if small else model.policy.everyone
    client = state.client
    if old and old >> max(0, broker.leader) & 1:
        last = broker  # it may still fetch
    else:
        client, log = settled_records(model, client, broker.log, epoch)
        last = Broker(UP, False, log, NOBODY, 0)
        if broker.leader == leader:  # in this epoch or, until it learns of it, an earlier one
            frozen = small and model.policy.freeze
            watermark = min(broker.hw, len(log)) if frozen else len(log)
            last = Broker(UP, False, log, leader, epoch, hw=watermark, isr=isr)
    others = [
        _old_leader(model, state, number) if old >> number & 1 else _follower(state, number, old)
        for number in range(count)
    ]
    harm, run = state.harm, state.run
    if harm != model.unharmed:
        harm = model.unharmed._replace(deaf=harm.deaf, mute=harm.mute, settings=harm.settings)
    return State(
        Controller(leader, epoch, isr, 0, NOBODY, 0, 0),
        (*others[:leader], last, *others[leader + 1 :]),
        client,
        run if run.alone else run._replace(alone=True),
        harm,
    )


def settled_records(model: Model, client: Client, log: Log, epoch: int) -> tuple[Client, Log]:
    """Return the clients and the final log without records that are acked, stored and in order.

    They can be neither lost nor out of order: earlier records can no longer be sent.
    """
    records = [record_of(one) for one in log]
    read, status = client.read, client.status
    for record in records:
        read &= ~(1 << record)
    if not model.heals_by_progress:
        if any(status[record] == ACKED for record in records):
            stored = set(records)
            status = tuple(
                DROPPED if one == ACKED and record in stored else one
                for record, one in enumerate(status)
            )
        if all(one < other for one, other in itertools.pairwise(records)):
            first = _first_open(model, status)
            records = [record for record in records if record >= first]
    log = tuple(entry(epoch, record) for record in records)
    return Client(client.leader, status, client.retries, read), log


def _first_open(model: Model, status: tuple[int, ...]) -> int:
    """Return the first record that may still be sent or retried."""
    last_phase = model.sent_before[-1]
    for record, outcome in enumerate(status):
        if unresolved(outcome) or (outcome == UNSENT and record >= last_phase):
            return record
    return model.records


def _follower(state: State, number: int, old: int) -> Broker:
    """Return a follower of the final leader or, while it may fetch from it, of an old leader."""
    broker, controller = state.brokers[number], state.controller
    followed = broker.leader
    if followed != NOBODY and old >> followed & 1 and broker.epoch == state.brokers[followed].epoch:
        return Broker(UP, False, (), followed, broker.epoch)
    return Broker(UP, False, (), controller.leader, controller.epoch)


def _old_leader(model: Model, state: State, number: int) -> Broker:
    """Return an old leader with the relevant records of its log, which it will truncate.

    These are the record in progress, records that producers retry (with idempotence), and acked
    records that are lost. If the final leader may still fetch, the whole log is relevant.
    """
    broker, status = state.brokers[number], state.client.status
    last = state.brokers[state.controller.leader]
    fetched = last.leader == number
    stored = {record_of(one) for one in last.log}
    answered, again = model.appended + number, model.configuration.idempotence

    def is_open(logged: int) -> bool:
        outcome = status[record_of(logged)]
        return outcome == answered or (again and unresolved(outcome))

    offsets = [
        offset
        for offset, one in enumerate(broker.log)
        if fetched
        or is_open(one)
        or (status[record_of(one)] == ACKED and record_of(one) not in stored)
    ]
    log = tuple(broker.log[offset] for offset in offsets)
    if model.acks != "all":  # no ack waits for the high watermark
        in_any_order = log if fetched else tuple(sorted(set(log)))
        return _with_log(broker, in_any_order, 0, (0,) * model.replicas)
    broker = _fetched(model, state, number)
    awaited = [
        (offset, end) for end, offset in enumerate(offsets, 1) if is_open(broker.log[offset])
    ]

    def last_awaited(offset: int) -> int:
        """Return the log end offset in the reduced log that acks the same records."""
        return max((end for one, end in awaited if one < offset), default=0)

    remote = tuple(map(last_awaited, broker.remote))
    return _with_log(broker, log, last_awaited(broker.hw), remote)


def _with_log(old: Broker, log: Log, hw: int, remote: tuple[int, ...]) -> Broker:
    return old._replace(status=UP, log=log, hw=hw, start=0, remote=remote, stale=0)


def _fetched(model: Model, state: State, number: int) -> Broker:
    """Return an old leader after its remaining followers, except the final leader, fetched all.

    This only lets the old leader ack more.
    """
    broker, final = state.brokers[number], state.controller.leader
    end = len(broker.log)
    remote = tuple(
        end
        if (one.leader, one.epoch) == (number, broker.epoch) and other not in (number, final)
        else broker.remote[other]
        for other, one in enumerate(state.brokers)
    )
    if remote == broker.remote:
        return broker
    return replica.advance_high_watermark(model.policy, broker._replace(remote=remote), number)


def awaits_heals_only(model: Model, state: State) -> bool:
    """Whether all remaining steps can wait until the schedule has healed its faults.

    Healing changes no outcome and depends on none of these steps. A new leader learns first, so
    that traces have this order.
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
    """Return the clients with the unsent records of the first `past` marked as failed.

    Neither is sent later. Only a condition that counts sent records distinguishes them.
    """
    if model.counts_sent or UNSENT not in client.status[:past]:
        return client
    status = tuple(DROPPED if one == UNSENT else one for one in client.status[:past])
    return client._replace(status=status + client.status[past:])


def ends_small(model: Model, state: State, old: int) -> bool | None:
    """Return `small` of `alone`; None if the state cannot be reduced.

    small: the ISR is the leader alone, too small for acks=all until the others catch up.
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


def leads_for_good(model: Model, state: State) -> bool:
    """Whether the leader knows that it leads, and no remaining fault can depose it.

    Its log is then the final log.
    """
    if not has_final_leader(model, state):
        return False
    leader = state.controller.leader
    broker = state.brokers[leader]
    return broker.leader == leader and broker.epoch == state.controller.epoch


def old_leaders(state: State) -> int:
    """Return the brokers that act as leader but were deposed by the controllers."""
    leader, brokers = state.controller.leader, enumerate(state.brokers)
    return sum(1 << n for n, broker in brokers if n != leader and replica.leads(broker, n))


def _is_small(model: Model, state: State) -> bool:
    return state.controller.isr.bit_count() < model.policy.min_isr


def _settles(model: Model, state: State, old: int) -> bool:
    """Whether the remaining steps involve only clients, the final leader and leaders `old`."""
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
    return grows and (model.acks != "all" or _knows_isr(model, state))


def _deposed_for_good(model: Model, state: State, old: int) -> bool:
    """Whether old leaders can only append, answer requests and serve fetches.

    Their high watermarks wait for the final leader, so its log has all records below them.
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
    """Whether the final leader's acks=all do not depend on a fault."""
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
    """Return the replicas that join the ISR of the final leader by prompt steps."""
    harm, leader = state.harm, state.controller.leader
    back = 0
    for number, broker in enumerate(state.brokers):
        starts = broker.status == STARTING and state.controller.fenced >> number & 1
        back |= (broker.status == UP or starts) << number
    return back & ~(state.harm.silent(leader) | harm.away)


def _recover(model: Model, state: State, returning: int) -> bool:
    """Whether each fault will recover, if healed, for whose recovery another fault waits."""
    run = state.run
    return not any(
        run.targets[awaited] & ~returning
        for fault, awaited in model.awaited_recoveries
        if awaited < run.injected and not run.healed >> fault & 1
    )


def _knows_isr(model: Model, state: State) -> bool:
    """Whether the final leader, if it acts as leader, knows the ISR."""
    leader = state.controller.leader
    broker = state.brokers[leader]
    return broker.leader != leader or not replica.behind(
        model.policy, state.controller, broker, leader
    )
