"""All steps of producer, brokers and controller that are possible in a state.

Each step has a label, the next state, and possibly a timer. Steps are the actions of `replication`,
when their conditions (`can_…`) hold. Steps are left out if their timer cannot have fired yet in
this schedule, if no fault in force causes them, and where a comment gives another reason. Label,
who takes the step, when, and the result:

send, resend    producer, knows a leader and has room in flight: the record is in flight
metadata        producer, another leader: it sends to that broker (`MetadataUpdater`)
append          broker, a request arrives and it leads: `Partition.appendRecordsToLeader`;
                or it refuses (not leader, not enough replicas, duplicate, out of order)
ack             leader, acks=1 or the high watermark has passed: `checkEnoughReplicasReachOffset`
timeout         leader, request.timeout.ms has passed for acks=all: REQUEST_TIMED_OUT
abandon         producer, no response for request.timeout.ms: it retries, or gives up
learn           broker, metadata is newer than what it knows: `makeLeader`, `makeFollower`
fetch, truncate follower, its leader answers: it appends or truncates (KIP-101, KIP-279, KIP-595)
shrink          leader, a follower lags for replica.lag.time.max.ms: AlterPartition (KIP-497)
expand          leader, a follower has caught up (`isr`): AlterPartition
catch up        final leader: all others fetch and join the ISR, in one step (`reduction`)
exit, refused   broker in controlled shutdown, it leads nothing, or no controller answers (KIP-143)
fence, expire   controller, a session has ended: `handleBrokerFenced`, `onBrokerFailure`
offline         ZooKeeper controller after a failover, a dead broker is in the ISR (KAFKA-3143)
rejoin          broker, started but fenced: it registers and is unfenced (KIP-500, KIP-966)
unfence         broker, heartbeats arrive again: it is unfenced, and may be elected
sweep           controller, unclean election was switched on and there is no leader: it elects
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ackproof_model.effects import Cuts, Effect, Ends, Stalls
from ackproof_model.prediction import injection, producer
from ackproof_model.prediction.model import Model
from ackproof_model.prediction.reduction import leads_for_good
from ackproof_model.prediction.state import FLYING, State, Step, Timer
from ackproof_model.replication import replica
from ackproof_model.replication.controller import (
    can_enrol,
    can_expire,
    can_fence,
    can_offline,
    can_unfence,
    change,
    expire,
    fence,
    offline,
    register,
    unfence,
)
from ackproof_model.replication.state import NOBODY, STARTING, STOPPING, UP, Broker, Label, members

T = TypeVar("T")

#: A step that neither reads nor changes the clients: label, -1, result, timer. With a broker
#: instead of -1: an old leader learns and answers its waiting requests (`producer.step_down`);
#: without a label: the requests at that broker; without a result: the end of its controlled
#: shutdown (`exits`).
Move = tuple[Label | None, int, T | None, Timer | None]


def cluster_moves(model: Model, state: State) -> Iterator[Move[State]]:
    """Yield the steps of brokers and controller, in the order of the search."""
    controller = state.controller
    for number, broker in enumerate(state.brokers):
        deposed = broker.leader == number != controller.leader
        if broker.alive:
            yield None, number, None, None
        if state.run.alone:
            if deposed:  # so it is behind
                yield ("learn", number), number, _learned(model, state, number), None
            continue
        if broker.alive and not state.harm.stalled >> number & 1:
            for label, after, timer in _replication(model, state, number, broker):
                answers = deposed and label[0] == "learn"
                yield label, number if answers else -1, after, timer
            if broker.status == STOPPING:
                yield ("exit", number), number, None, None
        for label, after, timer in _membership(model, state, number, broker):
            yield label, -1, after, timer
    last = _alone(model, state) if state.run.alone else _sweep(model, state)
    for label, after, timer in last:
        yield label, -1, after, timer


def _alone(model: Model, state: State) -> Iterator[Step]:
    """Yield the steps of a leader that is alone, besides requests."""
    leader = state.controller.leader
    yield from fetches(model, state, leader)  # from an old leader
    if replica.behind(model.policy, state.controller, state.brokers[leader], leader):
        yield ("learn", leader), _learned(model, state, leader), None
    elif state.controller.isr != model.policy.everyone:
        isr = model.policy.everyone
        controller = state.controller._replace(isr=isr)
        yield ("catch up", leader), state._replace(controller=controller), None


def producer_steps(model: Model, state: State) -> Iterator[Step]:
    """Yield the producer's own steps: they change the clients only."""
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
        metadata = state.with_client(client._replace(leader=leader))
        yield ("metadata", leader), metadata, None


def requests(model: Model, state: State, number: int) -> Iterator[Step]:
    """Yield the steps of the requests at a broker that is alive."""
    harm, bit, statuses = state.harm, 1 << number, state.client.status
    if FLYING + number not in statuses and model.appended + number not in statuses:
        return
    if not (harm.stalled | harm.deaf) & bit:
        served = producer.serve(model, state, number)
        if served is not None:
            what, record, after = served
            yield (what, number, record), after, None
    if not (harm.stalled | harm.mute) & bit:
        answered = producer.answer(model, state, number)
        if answered is not None:
            what, record, after = answered
            yield (what, number, record), after, None
        else:
            yield from _request_timeout(model, state, number)
    unheard = producer.unanswered(model, state, number)
    if unheard is not None:
        timer = ("request", in_force(state))
        if model.may_have_fired(timer, state):
            for after in producer.abandon(model, state, number, unheard):
                yield ("abandon", number, unheard), after, timer


def _replication(model: Model, state: State, number: int, broker: Broker) -> Iterator[Step]:
    away = state.harm.away >> number & 1  # metadata does not reach it
    if not away and replica.can_learn(model.policy, state.controller, broker, number):
        yield ("learn", number), _learned(model, state, number), None
    yield from fetches(model, state, number)
    # A request and its answer are one step: one that the controller does not get or that is
    # outdated has no effect.
    if (
        replica.can_request_isr(broker, number)
        and state.harm.governed(number)
        and replica.accepts_isr(model.policy, state.controller, broker, number)
    ):
        yield from _isr_changes(model, state, number)


def _learned(model: Model, state: State, number: int) -> State:
    """Return the state after a broker applied the latest metadata."""
    controller, policy, broker = state.controller, model.policy_in(state), state.brokers[number]
    if state.run.alone and controller.leader == number:
        view = Broker(UP, False, broker.log, number, controller.epoch, isr=controller.isr)
        view = replica.advance_high_watermark(policy, view, number)
    else:
        view = replica.learn(policy, controller, broker, number)
    return state.with_broker(number, view)


def fetches(model: Model, state: State, number: int) -> Iterator[Step]:
    """Yield a follower's fetch from its leader, if it is answered and changes anything."""
    follower = state.brokers[number]
    source = follower.leader
    if source == NOBODY or state.harm.silent(source) >> number & 1:  # the fetch is lost
        return
    policy, leader, what = model.policy_in(state), state.brokers[source], "fetch"
    if not replica.can_fetch(policy, follower, number, leader, source):
        return
    if model.reduces(state) and leads_for_good(model, state):  # all its fetches in one step
        end = len(leader.log)
        if follower.log == leader.log and leader.remote[number] == end:
            return
        follower = follower._replace(log=leader.log)
        leader = replica.fetched(policy, leader, source, number, end)
    else:
        fetched = replica.fetch(policy, follower, number, leader, source)
        if fetched is None:
            return
        what, follower, leader = fetched
    yield (
        (what, number, source),
        state.with_broker(source, leader).with_broker(number, follower),
        None,
    )


def _lagging(state: State, number: int) -> int:
    """Return the ISR members that cannot fetch from leader `number` and lack records.

    `Partition.isFollowerOutOfSync`: the log end offset differs, and the follower has not caught up
    for replica.lag.time.max.ms. Only cut connections and stalled processes make a follower lag in
    the model: the controller fences dead brokers (but see `controller.expire`).
    """
    leader = state.brokers[number]
    cut = leader.isr & (state.harm.silent(number) | state.controller.fenced) & ~(1 << number)
    return sum(1 << r for r in members(cut) if leader.remote[r] != len(leader.log))


def exits(model: Model, state: State, number: int) -> Iterator[Step]:
    """Yield the end of a broker's controlled shutdown."""
    if injection.released(model, state, number):
        yield ("exit", number), injection.exit_cleanly(model, state, number), None
    elif not state.harm.governed(number):
        yield ("refused", number), injection.exit_refused(model, state, number), None


def _request_timeout(model: Model, state: State, number: int) -> Iterator[Step]:
    """Yield REQUEST_TIMED_OUT: acks=all waited request.timeout.ms for the high watermark."""
    record = producer.blocked(model, state, number)
    if record is not None:
        timer = ("request", in_force(state))
        if model.may_have_fired(timer, state):
            yield ("timeout", number, record), producer.time_out(model, state, record), timer


def _isr_changes(model: Model, state: State, number: int) -> Iterator[Step]:
    """Yield the changes of the ISR that a leader requests and the controller commits at once."""
    policy, leader = model.policy_in(state), state.brokers[number]

    def requested(isr: int) -> Iterator[State]:
        for after, then in replica.request_isr(policy, state.controller, leader, number, isr):
            yield state.with_broker(number, then)._replace(controller=after)

    out = _lagging(state, number)
    if out:
        timer = ("lag", _hindering(model, state, number, out))
        if model.may_have_fired(timer, state):
            # They lag one by one, or all at once: subsets between are reached by several steps.
            for mask in {out, *(1 << r for r in members(out))}:
                if not replica.can_shrink(leader, number, mask):
                    continue
                for after in requested(leader.isr & ~mask):
                    yield ("shrink", number, mask), after, timer
    silent = state.harm.silent(number)
    for joiner in replica.joinable(policy, state.controller, leader, number):
        # The leader adds a follower as part of its fetch (`Partition.updateFollowerFetchState`).
        if state.brokers[joiner].status == UP and not silent >> joiner & 1:
            for after in requested(leader.isr | 1 << joiner):
                yield ("expand", number, joiner), after, None


def _membership(model: Model, state: State, number: int, broker: Broker) -> Iterator[Step]:
    """Yield the controller's steps for a broker that is silent, or that has returned."""
    controller, harm, bit = state.controller, state.harm, 1 << number
    if not harm.quorum:
        return  # controllers without a majority commit nothing
    quiet = not broker.alive or (harm.stalled | harm.away) & bit
    policy = model.policy_in(state)
    if can_fence(controller, number):
        if quiet:  # the heartbeats of others arrive
            timer = ("session", _silencing(model, state, number))
            if model.may_have_fired(timer, state, unhealed=broker.status != STARTING):
                yield from _silence_noticed(model, state, number, timer)
        return
    if _governed(model, state) and can_offline(policy, controller, number):
        left = offline(policy, controller, number)
        yield ("offline", number), state._replace(controller=left), None
    if harm.away & bit:
        return  # its requests do not arrive
    # Only healing starts a process.
    if broker.status == STARTING and can_enrol(controller, broker, number):
        view = broker._replace(status=UP)
        if controller.leader != number:  # else elected while dead: it leads only once registered
            view = replica.following(policy.profile, view, controller)
        registered = register(policy, controller, number, clean=broker.clean)
        brokers = [replica.forget(policy, known, number) for known in state.brokers]
        brokers[number] = view
        after = state._replace(controller=registered, brokers=tuple(brokers))
        yield ("rejoin", number), after, None
    # A fenced broker that wants to shut down ends (`calculateNextBrokerState`).
    elif can_unfence(controller, broker, number) and broker.status == UP and not quiet:
        after = state._replace(controller=unfence(policy, controller, number))
        yield ("unfence", number), after, None


def _silence_noticed(model: Model, state: State, number: int, timer: Timer) -> Iterator[Step]:
    """Yield the steps when a silent broker's session ends.

    With ZooKeeper the silent broker may be the controller, or no broker may be alive. Then the next
    controller finds the broker dead.
    """
    policy, controller = model.policy_in(state), state.controller
    governed = _governed(model, state)
    if governed:
        fenced = fence(policy, controller, number)
        yield ("fence", number), state._replace(controller=fenced), timer
    # From 2.4 the next controller finishes what a failover left (`offline`): only without one.
    failover = not governed or policy.profile.failover_keeps_isr
    if can_expire(policy, controller, number) and failover:
        expired = expire(policy, controller, number)
        yield ("expire", number), state._replace(controller=expired), timer


def _governed(model: Model, state: State) -> bool:
    """Whether there is a controller: with ZooKeeper it is one of the brokers that are alive."""
    if not model.policy.profile.zookeeper:
        return True
    elsewhere = (model.configuration.brokers or model.replicas) > model.replicas
    return elsewhere or any(broker.alive for broker in state.brokers)


def _sweep(model: Model, state: State) -> Iterator[Step]:
    """Yield the election of any live replica, after unclean election was switched on.

    The controller looks for leaderless partitions at intervals (5 minutes by default).
    """
    controller, policy = state.controller, model.policy_in(state)
    if controller.leader != NOBODY or not state.harm.settings or not policy.unclean_election:
        return
    elected = change(policy, controller, controller.isr)
    if state.harm.quorum and elected.leader != NOBODY:
        timer = ("sweep", tuple(members(state.harm.settings)))
        yield ("sweep",), state._replace(controller=elected), timer


def in_force(state: State) -> tuple[int, ...]:
    run = state.run
    return tuple(fault for fault in range(run.injected) if not run.healed >> fault & 1)


def _hindering(model: Model, state: State, leader: int, out: int) -> tuple[int, ...]:
    """Return the faults that prevent replicas from fetching from a leader."""

    def hinders(effect: Effect, targets: int) -> bool:
        match effect:
            case Stalls():
                return bool(targets & out)
            case Cuts(channels=("replication",)):
                return bool(injection.lost_fetches(model, effect, targets)[leader] & out)
        return False

    dead = out & state.controller.fenced

    def ended(effect: Effect, targets: int) -> bool:
        return isinstance(effect, Ends) and bool(targets & dead)

    faults = _faults(model, state, in_force(state), hinders)
    return faults + _faults(model, state, range(state.run.injected), ended)


def _silencing(model: Model, state: State, number: int) -> tuple[int, ...]:
    """Return the faults that may prevent heartbeats of a broker."""

    def silences(effect: Effect, targets: int) -> bool:
        match effect:
            case Stalls() | Cuts(channels=("controllers",), nodes="targets"):
                return bool(targets >> number & 1)
            case Cuts(channels=("controllers",)):
                return not targets >> number & 1
        return False

    def ends(effect: Effect, targets: int) -> bool:
        return isinstance(effect, Ends) and bool(targets >> number & 1)

    faults = _faults(model, state, in_force(state), silences)
    if not state.brokers[number].alive:
        faults += _faults(model, state, range(state.run.injected), ends)
    return faults


def _faults(
    model: Model, state: State, among: Iterable[int], has: Callable[[Effect, int], bool]
) -> tuple[int, ...]:
    """Return the faults with an effect and targets for which `has` holds."""
    targets = state.run.targets
    return tuple(
        fault
        for fault in among
        if any(has(effect, targets[fault]) for effect in model.schedule[fault].effects)
    )
