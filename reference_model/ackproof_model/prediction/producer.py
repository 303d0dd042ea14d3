"""The producer, and how brokers answer its requests.

A broker reads the next request of a connection only after it has answered the previous one
(`SocketServer` mutes the channel). A producer sends its records in order; only records in flight
can overtake a record that is retried.
"""

from __future__ import annotations

from ackproof_model.prediction.model import REQUEST_TIMEOUT_S, Model
from ackproof_model.prediction.state import ACKED, DROPPED, FLYING, UNSENT, WAITING, Client, State
from ackproof_model.replication.leader import committed, enough_in_sync
from ackproof_model.replication.replica import append
from ackproof_model.replication.state import NOBODY, members, record_of

#: The most records in flight; two can overtake each other.
IN_FLIGHT = 2


def _with_status(client: Client, record: int, status: int) -> Client:
    statuses = (*client.status[:record], status, *client.status[record + 1 :])
    return Client(client.leader, statuses, client.retries, client.read)


def set_status(state: State, record: int, status: int) -> State:
    return state.with_client(_with_status(state.client, record, status))


def is_acked(model: Model, status: int) -> bool:
    """Whether a record counts as acked; with acks=0 when it is written to a connection."""
    return status == ACKED or (model.acks == "0" and status >= FLYING)


def unresolved(status: int) -> bool:
    """Whether a sent record has no outcome yet."""
    return status == WAITING or status >= FLYING


def _room(model: Model, client: Client) -> bool:
    """Whether another record may be in flight (Kafka limits each connection, the model all)."""
    if model.acks == "0":
        return True  # the producer waits for no response
    in_flight = sum(status >= FLYING for status in client.status)
    return in_flight < min(model.configuration.max_in_flight, IN_FLIGHT)


def next_unsent(model: Model, state: State) -> int | None:
    """Return the record that the application may send now, None if there is none.

    It sends nothing while the producer knows no leader.
    """
    if state.client.leader == NOBODY and model.ordered and not model.counts_sent:
        return None
    for record, phase in enumerate(model.phases):
        if phase == state.run.phase and state.client.status[record] == UNSENT:
            return record
    return None


def send(model: Model, state: State, record: int) -> State:
    """Return the state after the application sent a record.

    WHO: the application. WHEN: `next_unsent` is that record. THEN: it is in flight if the producer
    knows a leader, has room and retries nothing; otherwise it is queued (`RecordAccumulator`).
    """
    client = state.client
    if client.leader == NOBODY or _awaits_retries(client) or not _room(model, client):
        return set_status(state, record, WAITING)
    return set_status(state, record, FLYING + client.leader)


def _awaits_retries(client: Client) -> bool:
    """Whether a retried record is sent first (`RecordAccumulator`; librdkafka sorts its queue)."""
    return WAITING in client.status


def next_to_resend(model: Model, client: Client) -> int | None:
    """Return the queued record that may be sent now, None if there is none.

    WHO: the producer. WHEN: it knows a leader and has room. THEN: the oldest queued record is in
    flight (`Sender.sendProducerData`).
    """
    if client.leader == NOBODY or WAITING not in client.status or not _room(model, client):
        return None
    return client.status.index(WAITING)


def fail(model: Model, state: State, record: int) -> State:
    """Return the state after a retriable error.

    WHO: the producer. WHEN: a request got an error, or its connection ended. THEN: the record is
    queued again, or has failed if no retry is left (`Sender.canRetry`).
    """
    client = state.client
    if model.limited_retries:
        left = client.retries[record]
        if not left:
            return give_up(model, state, record)
        retries = (*client.retries[:record], left - 1, *client.retries[record + 1 :])
        client = client._replace(retries=retries)
    return state.with_client(_with_status(client, record, WAITING))


def give_up(model: Model, state: State, record: int) -> State:
    """Return the state after a record failed; it may be in a log nevertheless.

    If it is the newest record and in no log, the state is as if it had never been sent.
    """
    written = any(record_of(one) == record for b in state.brokers for one in b.log)
    trace = written or any(status != UNSENT for status in state.client.status[record + 1 :])
    client = _with_status(state.client, record, DROPPED if trace else UNSENT)
    if model.limited_retries and not trace:
        whole = (
            *client.retries[:record],
            model.configuration.retries,
            *client.retries[record + 1 :],
        )
        client = client._replace(retries=whole)
    return state.with_client(client)


def time_out(model: Model, state: State, record: int) -> State:
    """Return the state after a request timed out.

    WHO: the producer. WHEN: it had no response for request.timeout.ms, or the leader answered
    REQUEST_TIMED_OUT. THEN: it retries if delivery.timeout.ms, which has no other effect in the
    model, leaves time.
    """
    if model.configuration.delivery_timeout_s <= REQUEST_TIMEOUT_S:
        return give_up(model, state, record)
    return fail(model, state, record)


def disconnect(model: Model, state: State, number: int) -> State:
    """Return the state after a broker's process ended: its requests in flight have no response.

    WHO: the producer. WHEN: together with `replica.ended`. THEN: it retries. The kernel closes the
    connections of a dead process, so the producer notices at once. With acks=0, requests that the
    broker had not read are lost.
    """
    flying, appended = FLYING + number, model.appended + number
    for record, status in enumerate(state.client.status):
        if status in (flying, appended):
            if model.acks == "0":
                state = set_status(state, record, ACKED)
            else:
                state = fail(model, state, record)
    return forget_leader(state, number)


def forget_leader(state: State, number: int) -> State:
    """Return the state after the producer learned that a broker does not lead."""
    if state.client.leader != number:
        return state
    return state.with_client(state.client._replace(leader=NOBODY))


def step_down(model: Model, state: State, number: int) -> State:
    """Return the state after a broker that stopped leading answered its waiting requests.

    WHO: a broker. WHEN: together with `replica.learn`, if it led. THEN: with acks=all it answers
    NOT_LEADER_OR_FOLLOWER (`ReplicaManager.completeDelayedOperations`). With acks=1 the response
    was already sent.
    """
    if model.acks != "all":
        return state
    for record, status in enumerate(state.client.status):
        if status == model.appended + number:
            state = forget_leader(fail(model, state, record), number)
    return state


def serve(model: Model, state: State, number: int) -> tuple[str, int, State] | None:
    """Return how a broker handles its next produce request; None if there is none.

    WHO: a broker. WHEN: a request arrived, and the one before it is answered. THEN: it appends if
    `replica.can_append` and the sequence number is the next, or answers with the error of the part
    that does not hold. `ReplicaManager.appendRecords`, `Partition.appendRecordsToLeader`,
    `ProducerStateManager.analyzeAndValidateProducerState`.
    """
    statuses = state.client.status
    appended = model.appended + number
    if FLYING + number not in statuses or appended in statuses:
        return None
    record = statuses.index(FLYING + number)
    leader = state.brokers[number]
    if leader.leader != number:
        if model.acks == "0":
            state = set_status(state, record, ACKED)  # the broker only closes the connection
        else:
            state = fail(model, state, record)
        return "not leader", record, forget_leader(state, number)

    policy = model.policy_in(state)
    if not enough_in_sync(policy, leader.isr):
        unattainable = policy.min_isr > model.replicas  # until delivery.timeout.ms
        failed = give_up if unattainable else fail
        return "not enough replicas", record, failed(model, state, record)

    stored = [record_of(one) for one in leader.log]
    if model.configuration.idempotence:
        if _is_duplicate(record, stored):
            return "duplicate", record, set_status(state, record, appended)
        if _gap(state, record, stored):
            return "out of order", record, fail(model, state, record)
    # A log with a duplicate appends no second copy of another record. This does not change the
    # anomalies: wherever it is truncated, the rest has the same records in the same order, and a
    # duplicate if it would have had one.
    if record not in stored or len(set(stored)) == len(stored):
        state = state.with_broker(number, append(policy, leader, number, record))
    return "append", record, set_status(state, record, ACKED if model.acks == "0" else appended)


def _is_duplicate(record: int, stored: list[int]) -> bool:
    """Whether the sequence number is in the log already (KIP-98)."""
    return record in stored


def _gap(state: State, record: int, stored: list[int]) -> bool:
    """Whether an earlier record may still arrive (OUT_OF_ORDER_SEQUENCE_NUMBER).

    Earlier records that failed leave no gap: the producer continues with a new producer epoch
    (KIP-360).
    """
    earlier = enumerate(state.client.status[:record])
    return any(unresolved(status) and number not in stored for number, status in earlier)


def answer(model: Model, state: State, number: int) -> tuple[str, int, State] | None:
    """Return the response to the request in progress at a broker; None if it waits.

    WHO: a broker. WHEN: with acks=1 after the append; with acks=all once the high watermark has
    passed the record. THEN: the record is acked if `replica.can_ack`; a maximal ISR that is too
    small is an error (`Partition.checkEnoughReplicasReachOffset`).
    """
    appended = model.appended + number
    if appended not in state.client.status:
        return None
    record = state.client.status.index(appended)
    leader = state.brokers[number]
    if model.acks == "all":
        if not committed(_last_offset(state, number, record), leader.hw):
            return None
        if not enough_in_sync(model.policy_in(state), leader.maximal):
            return "not enough replicas after append", record, fail(model, state, record)
    return "ack", record, set_status(state, record, ACKED)


def blocked(model: Model, state: State, number: int) -> int | None:
    """Return the record that waits at a leader until a timer fires or a fault is healed.

    The high watermark stands still below the minimum ISR, or waits for a member that is dead, cut
    off or stalled, or that follows another leader.
    """
    appended = model.appended + number
    if model.acks != "all" or appended not in state.client.status:
        return None
    record = state.client.status.index(appended)
    leader, offset = state.brokers[number], _last_offset(state, number, record)
    if leader.hw > offset:
        return None
    policy = model.policy_in(state)
    frozen = policy.freeze and leader.isr.bit_count() < policy.min_isr
    gone, deposed = state.harm.silent(number), not state.harm.governed(number)
    waits = any(
        leader.remote[r] <= offset
        and (
            not state.brokers[r].alive
            or gone >> r & 1
            or (deposed and state.brokers[r].epoch != leader.epoch)
        )
        for r in members(leader.maximal & ~(1 << number))
    )
    return record if frozen or waits else None


def unanswered(model: Model, state: State, number: int) -> int | None:
    """Return the record whose request to, or response from, a broker is lost."""
    harm, statuses = state.harm, state.client.status
    if not (harm.stalled | harm.deaf | harm.mute) >> number & 1:
        return None
    appended = model.appended + number
    if appended in statuses:
        return statuses.index(appended) if (harm.stalled | harm.mute) >> number & 1 else None
    if FLYING + number in statuses and (harm.stalled | harm.deaf) >> number & 1:
        return statuses.index(FLYING + number)
    return None


def abandon(model: Model, state: State, number: int, record: int) -> list[State]:
    """Return the states after a producer stopped waiting for a response.

    WHO: the producer. WHEN: a request or its response is lost (`unanswered`), and
    request.timeout.ms has passed. THEN: the request has timed out. The broker may handle it later,
    when the process or the network is restored.
    """
    if model.acks == "0":
        return [set_status(state, record, ACKED)]  # written to a connection, and lost with it
    after = [time_out(model, state, record)]
    stored = any(record_of(one) == record for one in state.brokers[number].log)
    if state.client.status[record] == FLYING + number and not stored:
        late = serve(model, state, number)
        if late is not None and late[0] == "append":
            after.append(time_out(model, late[2], record))
    return after


def _last_offset(state: State, number: int, record: int) -> int:
    log = state.brokers[number].log
    return max(offset for offset, one in enumerate(log) if record_of(one) == record)
