"""The records that consumers read, and whether a partition can be read and written.

A consumer may read every record below the high watermark of a broker that acts as leader.
`Client.read` has the records whose removal would matter, without those acked with acks=all and
those that can no longer be removed.
"""

from __future__ import annotations

from ackproof_model.prediction.model import Model
from ackproof_model.prediction.state import ACKED, Client, State
from ackproof_model.replication.replica import leads
from ackproof_model.replication.state import NOBODY, members, record_of


def readable_records(state: State) -> int:
    """Return the records below the high watermark of a broker that acts as leader."""
    harm = state.harm
    unheard = harm.stalled | harm.deaf | harm.mute
    readable = 0
    for number, broker in enumerate(state.brokers):
        if broker.hw and leads(broker, number) and not unheard >> number & 1:
            for one in broker.log[: broker.hw]:
                readable |= 1 << record_of(one)
    return readable


def unremovable(model: Model, state: State) -> int:
    """Return the records that no broker can remove from its log any more."""
    records = 0
    if state.run.alone:
        for one in state.brokers[state.controller.leader].log:
            records |= 1 << record_of(one)
    elif state.run.injected >= model.last_loss:
        for entries in zip(*(broker.log for broker in state.brokers), strict=False):
            if entries.count(entries[0]) < len(entries):
                break
            records |= 1 << record_of(entries[0])
    return records


def with_reads(model: Model, client: Client, readable: int, unremovable_records: int) -> Client:
    """Return the clients after consumers read all readable records."""
    read = (client.read | readable) & ~unremovable_records
    if read and model.acks == "all":
        read &= ~acked_records(client)
    return client if read == client.read else client._replace(read=read)


def acked_records(client: Client) -> int:
    return sum(1 << record for record, status in enumerate(client.status) if status == ACKED)


def read_then_gone(model: Model, state: State) -> bool:
    """Whether consumers may have read a record that the final log of a settled state lacks."""
    read = state.client.read
    if model.acks == "all":
        read |= acked_records(state.client)
    for one in state.brokers[state.controller.leader].log:
        read &= ~(1 << record_of(one))
    return bool(read)


def readable(state: State) -> bool:
    """Whether the partition has a leader that clients reach."""
    leader, harm = state.controller.leader, state.harm
    if leader == NOBODY or (harm.stalled | harm.deaf | harm.mute) >> leader & 1:
        return False
    broker = state.brokers[leader]
    knows = broker.leader == leader and broker.epoch == state.controller.epoch
    return broker.alive and (knows or not harm.away >> leader & 1)


def writable(model: Model, state: State) -> bool:
    """Whether acks=all succeeds: the ISR is large enough, and all its members can fetch."""
    isr, leader = state.controller.isr, state.controller.leader
    if not readable(state) or isr.bit_count() < model.policy_in(state).min_isr:
        return False
    others = members(isr & ~(1 << leader))
    return not state.harm.silent(leader) & isr and all(state.brokers[r].alive for r in others)
