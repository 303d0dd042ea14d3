"""Replaces states by equivalent ones: they differ in what no later step distinguishes.

Records that every log has for good are left out, and the producer does not wait for nothing.
"""

from __future__ import annotations

from ackproof_model.replication.model import Model
from ackproof_model.replication.producer import next_to_resend, unresolved, with_status
from ackproof_model.replication.state import (
    DROPPED,
    FLYING,
    NOBODY,
    UNSENT,
    UP,
    Client,
    State,
    record_of,
)


def serving_leader(model: Model, state: State) -> int:
    """Return the leader if it serves its clients until its process ends; NOBODY otherwise."""
    leader = state.controller.leader
    if leader == NOBODY or state.run.alone or not model.producer_need_not_wait:
        return NOBODY
    broker = state.brokers[leader]
    knows = broker.leader == leader and broker.epoch == state.controller.epoch
    return leader if broker.status == UP and knows else NOBODY


def with_prompt_producer(model: Model, client: Client, leader: int) -> Client:
    """Return the clients after the producer learned of a serving leader, and sent records again.

    Waiting changes no outcome: if the process of the leader ends, the record is queued as before.
    A record waits only if a later one can overtake it.
    """
    if client.leader == NOBODY:
        client = client._replace(leader=leader)
    while client.leader == leader:
        record = next_to_resend(model, client)
        if record is None or FLYING + leader in client.status[record:]:
            break
        client = with_status(client, record, FLYING + leader)
    return client


def common_records(model: Model, state: State) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the first records of all logs, and how many of them may be left out together.

    No broker can remove them, and no later record of a log is older. Their offsets are below each
    offset that a leader compares, or count as "no fetch".
    """
    run, profile = state.run, model.policy.profile
    counted = model.counts_sent or model.heals_by_progress
    if run.alone or counted or run.injected < model.last_loss or profile.keeps_high_watermark:
        return (), ()
    brokers = state.brokers
    shared = len(min((broker.log for broker in brokers), key=len))
    first = brokers[0].log
    while shared and any(broker.log[:shared] != first[:shared] for broker in brokers):
        shared -= 1
    records = tuple(map(record_of, first[:shared]))
    return records, tuple(
        count for count in range(shared, 0, -1) if _may_leave_out(model, state, count, records)
    )


def _may_leave_out(model: Model, state: State, count: int, records: tuple[int, ...]) -> bool:
    least = -1
    for record in records[:count]:
        if record <= least:
            return False
        least = record
    for number, broker in enumerate(state.brokers):
        if any(record_of(one) <= least for one in broker.log[count:]):
            return False
        behind = any(
            fetched < count for other, fetched in enumerate(broker.remote) if other != number
        )
        joins_at = max(broker.hw, broker.start if model.policy.profile.epoch_start else 0)
        if behind and joins_at < count:
            return False
    return True


def without_common_records(state: State, count: int) -> State:
    """Return the state without the first `count` records of each log."""
    return state._replace(
        brokers=tuple(
            broker._replace(
                log=broker.log[count:],
                start=max(0, broker.start - count),
                hw=max(0, broker.hw - count),
                remote=tuple(
                    fetched - count if fetched >= count else NOBODY for fetched in broker.remote
                ),
            )
            for broker in state.brokers
        )
    )


def settled_common_records(
    model: Model, client: Client, records: tuple[int, ...], phase: int
) -> int:
    """Return how many of the first records of all logs can no longer matter to the clients.

    They have their outcome, no condition counts them, and no older record can still be appended.
    """
    past = model.sent_before[phase]
    end = past if phase in model.counted_phases else model.records
    first = next(
        (
            n
            for n, one in enumerate(client.status[:end])
            if unresolved(one) or (one == UNSENT and n >= past)
        ),
        end,
    )
    return next((n for n, record in enumerate(records) if record >= first), len(records))


def without_records(client: Client, records: tuple[int, ...]) -> Client:
    """Return the clients as if these records had never been sent."""
    status, read = client.status, client.read
    for record in records:
        read &= ~(1 << record)
        status = (*status[:record], DROPPED, *status[record + 1 :])
    return client._replace(status=status, read=read)
