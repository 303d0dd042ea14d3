"""All steps of producer, brokers and controller that are possible in a state.

Each step has a label, the state that it leads to, and a timer if it takes time. A step is left out
if its timer cannot have fired yet, by the schedule's own bounds.
"""

from __future__ import annotations

from collections.abc import Iterator

from ackproof_model.replication import effects, producer, replica
from ackproof_model.replication.controller import fence, register
from ackproof_model.replication.model import Model
from ackproof_model.replication.state import (
    DOWN,
    FLYING,
    NOBODY,
    STARTING,
    STOPPING,
    UP,
    Broker,
    Controller,
    State,
    Step,
    members,
)


def steps(model: Model, state: State) -> Iterator[Step]:
    """Yield every step of producer, brokers and controller that may change the outcome."""
    for label, after, timer in _steps(model, state):
        yield label, simplify(model, after), timer


def simplify(model: Model, state: State) -> State:
    """Return the state without the parts that can no longer change the outcome.

    Once all faults have happened, a running leader that knows its epoch stays leader, and its log
    is the final one. If its acks wait for no other replica, or all that they wait for can fetch,
    the others are replaced by copies of the leader: their steps only take time.
    """
    if not model.reduces or not replica.leads_for_good(model, state):
        return state
    leader, isr = state.controller.leader, state.controller.isr
    if any(replica.leads(b, n) for n, b in enumerate(state.brokers) if n != leader):
        return state  # an old leader may still append
    if model.acks == "all":
        if isr.bit_count() < model.policy.min_isr or state.run.cuts[leader]:
            return state
        if any(state.brokers[number].status != UP for number in members(isr)):
            return state
        here = model.appended + leader
        if any(status >= model.appended and status != here for status in state.client.status):
            return state  # an old leader may still answer
    epoch, log = state.controller.epoch, state.brokers[leader].log
    other = Broker(UP, False, (), leader, epoch)
    everyone, count = model.policy.everyone, model.replicas
    watermark = len(log) if model.acks == "all" else 0
    final = Broker(UP, False, log, leader, epoch, everyone, everyone, 0, watermark)
    return State(
        Controller(leader, epoch, everyone, 0, NOBODY, 0, 0),
        tuple(final if number == leader else other for number in range(count)),
        state.client,
        state.run._replace(cuts=(0,) * count),
    )


def _steps(model: Model, state: State) -> Iterator[Step]:
    yield from _producer(model, state)
    # A leader without `remote` is one whose followers `simplify` replaced.
    alone = (
        replica.leads_for_good(model, state) and not state.brokers[state.controller.leader].remote
    )
    for number, broker in enumerate(state.brokers):
        if broker.alive:
            yield from _requests(model, state, number)
            if not alone:
                yield from _replication(model, state, number, broker)
        elif not alone:
            yield from _dead(model, state, number, broker)


def _producer(model: Model, state: State) -> Iterator[Step]:
    client, controller = state.client, state.controller
    record = producer.next_unsent(model, state)
    if record is not None:
        yield ("send", record), producer.send(model, state, record), None
    record = producer.next_to_resend(model, client)
    if record is not None:
        status = FLYING + client.leader
        yield ("resend", record), producer.set_status(state, record, status), None
    leader = controller.leader
    if leader not in (NOBODY, client.leader) and state.brokers[leader].alive:
        metadata = state._replace(client=client._replace(leader=leader))
        yield ("metadata", leader), metadata, None


def _requests(model: Model, state: State, number: int) -> Iterator[Step]:
    served = producer.serve(model, state, number)
    if served is not None:
        what, record, after = served
        yield (what, number, record), after, None
    answered = producer.answer(model, state, number)
    if answered is not None:
        what, record, after = answered
        yield (what, number, record), after, None
    else:
        yield from _request_timeout(model, state, number)


def _replication(model: Model, state: State, number: int, broker: Broker) -> Iterator[Step]:
    controller = state.controller
    if replica.behind(broker, number, controller):
        after = replica.learn(model, state, number)
        if broker.leader == number != controller.leader:
            after = producer.step_down(model, after, number)
        yield ("learn", number), after, None
    fetched = replica.fetch(model, state, number)
    if fetched is not None:
        what, after = fetched
        yield (what, number, broker.leader), after, None
    if replica.may_alter(model, state, number):
        yield from _isr_changes(model, state, number)
    if broker.status == STOPPING and effects.may_exit(state, number):
        yield ("exit", number), effects.exit_cleanly(model, state, number), None


def _request_timeout(model: Model, state: State, number: int) -> Iterator[Step]:
    """Yield REQUEST_TIMED_OUT: acks=all waited request.timeout.ms for the high watermark."""
    record = producer.blocked(model, state, number)
    if record is not None:
        timer = ("request", in_force(state))
        if model.may_have_fired(timer, state):
            yield ("timeout", number, record), producer.time_out(model, state, record), timer


def _isr_changes(model: Model, state: State, number: int) -> Iterator[Step]:
    out = replica.lagging(state, number)
    if out:
        timer = ("lag", _cutting(model, state, number))
        if model.may_have_fired(timer, state):
            for mask in {out, *(1 << r for r in members(out))}:
                yield ("shrink", number, mask), replica.shrink(model, state, number, mask), timer
    for joiner in replica.joining(model, state, number):
        yield ("expand", number, joiner), replica.expand(model, state, number, joiner), None


def _dead(model: Model, state: State, number: int, broker: Broker) -> Iterator[Step]:
    controller = state.controller
    if not controller.fenced >> number & 1:
        # A new incarnation is refused while the old session lives
        # (DUPLICATE_BROKER_REGISTRATION), so a dead broker is always fenced first.
        timer = ("session", _killing(model, state, number))
        if model.may_have_fired(timer, state, unhealed=broker.status == DOWN):
            after = state._replace(controller=fence(model.policy, controller, number))
            yield ("fence", number), after, timer
    elif broker.status == STARTING:
        view = Broker(UP, False, broker.log, controller.leader, controller.epoch)
        registered = register(model.policy, controller, number, clean=broker.clean)
        after = state.with_broker(number, view)._replace(controller=registered)
        yield ("rejoin", number), after, None


def in_force(state: State) -> tuple[int, ...]:
    run = state.run
    return tuple(fault for fault in range(run.injected) if not run.healed >> fault & 1)


def _cutting(model: Model, state: State, number: int) -> tuple[int, ...]:
    return tuple(
        fault
        for fault in in_force(state)
        if model.schedule[fault].fault == "isolate_replication"
        and state.run.targets[fault] >> number & 1
    )


def _killing(model: Model, state: State, number: int) -> tuple[int, ...]:
    run = state.run
    return tuple(
        fault
        for fault in range(run.injected)
        if model.schedule[fault].fault in ("kill", "power_loss")
        and run.targets[fault] >> number & 1
    )
