"""The states in which only the final leader, and old leaders that do not know it, are left.

The final leader never truncates its log. Its followers fetch what it has, and follow nobody else:
they are left out. An old leader acks what the final log will lack, until it learns who leads.
"""

from __future__ import annotations

import itertools

from ackproof_model.replication import replica
from ackproof_model.replication.model import Model
from ackproof_model.replication.producer import unresolved
from ackproof_model.replication.state import (
    ACKED,
    DROPPED,
    NOBODY,
    UNSENT,
    UP,
    Broker,
    Client,
    Controller,
    Log,
    State,
    entry,
    record_of,
)


def alone(model: Model, state: State, old: int, *, small: bool) -> State:
    """Return the state with the final leader and the leaders `old` (a bitmask).

    small: the ISR is the leader alone, until the others caught up; else it is full.
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
            last = Broker(UP, False, log, leader, epoch, isr, isr, 0, watermark)
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
    """Return the clients and the final log without what is settled: acked, stored and in order.

    No record that may still be sent comes before it, so it can be neither lost nor out of order.
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
    """Return the first record that may still be sent, or sent again."""
    last_phase = model.sent_before[-1]
    for record, outcome in enumerate(status):
        if unresolved(outcome) or (outcome == UNSENT and record >= last_phase):
            return record
    return model.records


def _follower(state: State, number: int, old: int) -> Broker:
    """Return a follower of the final leader, or one that may still fetch from an old leader."""
    broker, controller = state.brokers[number], state.controller
    followed = broker.leader
    if followed != NOBODY and old >> followed & 1 and broker.epoch == state.brokers[followed].epoch:
        return Broker(UP, False, (), followed, broker.epoch)
    return Broker(UP, False, (), controller.leader, controller.epoch)


def _old_leader(model: Model, state: State, number: int) -> Broker:
    """Return an old leader with what still matters of its log; its followers will truncate it.

    That is the record in progress, those that producers send again if it is to know them, and, to
    be told of, those that are acked and lost. All of it if the final leader may still fetch it.
    """
    broker, status = state.brokers[number], state.client.status
    last = state.brokers[state.controller.leader]
    fetched = last.leader == number
    stored = {record_of(one) for one in last.log}
    answered, again = model.appended + number, model.configuration.idempotence

    def is_open(one: int) -> bool:
        outcome = status[record_of(one)]
        return outcome == answered or (again and unresolved(outcome))

    kept = [
        offset
        for offset, one in enumerate(broker.log)
        if fetched
        or is_open(one)
        or (status[record_of(one)] == ACKED and record_of(one) not in stored)
    ]
    log = tuple(broker.log[offset] for offset in kept)
    if model.acks != "all":  # no ack waits for the high watermark
        in_any_order = log if fetched else tuple(sorted(set(log)))
        return _with_log(broker, in_any_order, 0, (0,) * model.replicas)
    broker = _fetched(model, state, number)
    awaited = [(offset, end) for end, offset in enumerate(kept, 1) if is_open(broker.log[offset])]

    def last_awaited(offset: int) -> int:
        """Return the log end offset, among what is kept, that acks the same records."""
        return max((end for one, end in awaited if one < offset), default=0)

    remote = tuple(map(last_awaited, broker.remote))
    return _with_log(broker, log, last_awaited(broker.hw), remote)


def _with_log(old: Broker, log: Log, hw: int, remote: tuple[int, ...]) -> Broker:
    return Broker(
        UP, old.clean, log, old.leader, old.epoch, old.isr, old.maximal, hw=hw, remote=remote
    )


def _fetched(model: Model, state: State, number: int) -> Broker:
    """Return an old leader after those who still follow it, but not the final leader, fetched all.

    They may at any time, and it only lets the old leader ack more.
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
