"""Injecting and healing a fault: its effects on a state, one after the other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from ackproof_model.effects import (
    Configures,
    Cuts,
    Effect,
    Elects,
    Ends,
    LogKept,
    QuorumLost,
    Stalls,
)
from ackproof_model.kafka.partition_change import Election
from ackproof_model.prediction.model import Model
from ackproof_model.prediction.producer import disconnect
from ackproof_model.prediction.state import State
from ackproof_model.replication.controller import (
    begin_shutdown,
    can_begin_shutdown,
    can_exit,
    change,
    fence,
)
from ackproof_model.replication.isr import active
from ackproof_model.replication.replica import behind, can_end, crashed, ended
from ackproof_model.replication.state import DOWN, NOBODY, STARTING, STOPPING, UP, members


def inject(model: Model, state: State, fault: int, mask: int) -> Iterator[State]:
    """Yield the states with a fault in force; all but a controlled shutdown are verified at once.

    A power loss has several: the disk may have more or less of the log.
    """
    run = state.run
    states = [
        state._replace(
            run=run._replace(
                injected=fault + 1,
                phase=fault + 1,
                targets=(*run.targets, mask),
                leaders=(
                    *run.leaders,
                    state.controller.leader if fault in model.compares_leader else NOBODY,
                ),
            )
        )
    ]
    for effect in model.schedule[fault].effects:
        states = [after for one in states for after in _apply(model, one, fault, effect, mask)]
    yield from states


def _apply(model: Model, state: State, fault: int, effect: Effect, mask: int) -> Iterable[State]:
    match effect:
        case Ends(clean=True):
            return [_stop_next(model, state)]
        case Ends(log=kept):
            for number in members(mask):
                if can_end(state.brokers[number]):
                    state = _ended(model, state, number, clean=False)
            return _crashed(state, members(mask), kept)
        case Configures():
            state = _without_elr(model, state, effect)
        case Elects(unclean=unclean):
            return [_elect(model, state, unclean=unclean)]
    return [_impair(model, state, fault, effect)]


def _without_elr(model: Model, state: State, effect: Configures) -> State:
    """Return the state after a setting changed: min.insync.replicas clears the ELR.

    `ConfigurationControlManager.createClearElrRecordsAsNeeded`.
    """
    if effect.min_insync_replicas is None or not model.policy.elr:
        return state
    return state._replace(controller=state.controller._replace(elr=0, last_known=NOBODY))


def _crashed(state: State, numbers: Sequence[int], kept: LogKept) -> Iterator[State]:
    """Yield the states in which the disk of each of these dead brokers has what it may have."""
    choices = []
    for number in numbers:
        down = state.brokers[number]
        end = len(down.log)
        lengths = {"kept": range(end, end + 1), "prefix": range(end + 1)}.get(kept, range(1))
        choices.append(list(crashed(down, lengths)))
    for disks in itertools.product(*choices):
        after = state
        for number, down in zip(numbers, disks, strict=True):
            after = after.with_broker(number, down)
        yield after


def _elect(model: Model, state: State, *, unclean: bool) -> State:
    """Return the state after an election was asked for (`ReplicationControlManager.electLeader`).

    An unclean one is refused where there is a leader (ELECTION_NOT_NEEDED).
    """
    controller, policy = state.controller, model.policy_in(state)
    if not state.harm.quorum or (unclean and controller.leader != NOBODY):
        return state
    election = Election.UNCLEAN if unclean else Election.PREFERRED
    elected = change(policy, controller, controller.isr, election=election)
    return state._replace(controller=elected)


def _ended(model: Model, state: State, number: int, *, clean: bool) -> State:
    harm, bit = state.harm, 1 << number
    down = ended(model.policy, state.brokers[number], clean=clean)
    state = state.with_broker(number, down)
    if harm.stalled & bit:
        state = state._replace(harm=harm._replace(stalled=harm.stalled & ~bit))
    return disconnect(model, state, number)


def _stop_next(model: Model, state: State) -> State:
    """Begin the next controlled shutdown of the last fault; after the last, it is verified."""
    run = state.run
    fault = run.injected - 1
    for number in members(run.targets[fault]):
        broker = state.brokers[number]
        if can_begin_shutdown(broker):
            state = state.with_broker(number, broker._replace(status=STOPPING))
            if state.harm.governed(number):
                stopping = begin_shutdown(model.policy_in(state), state.controller, number)
                state = state._replace(controller=stopping)
            return state._replace(run=run._replace(phase=fault))
    return state._replace(run=run._replace(phase=fault + 1))


def released(model: Model, state: State, number: int) -> bool:
    """Whether the controllers let a broker in controlled shutdown end.

    They wait until all active brokers have the metadata in which it leads nothing
    (`BrokerHeartbeatManager.calculateNextBrokerState`); with ZooKeeper they do not. A broker that
    does not reach them is not released (`exit_refused`).
    """
    controller, policy = state.controller, model.policy_in(state)
    return (
        state.harm.governed(number)
        and can_exit(policy, controller, state.brokers[number], number)
        and not any(
            not policy.profile.zookeeper
            and active(controller, n)
            and (b.status != UP or behind(policy, controller, b, n))
            for n, b in enumerate(state.brokers)
        )
    )


def exit_cleanly(model: Model, state: State, number: int) -> State:
    """Return the state after a controlled shutdown; the next one of the fault begins, if any."""
    state = _ended(model, state, number, clean=True)
    fenced = fence(model.policy_in(state), state.controller, number)
    return _stop_next(model, state._replace(controller=fenced))


def exit_refused(model: Model, state: State, number: int) -> State:
    """Return the state after a shutdown without a controller: it ends in a SIGKILL."""
    return _stop_next(model, _ended(model, state, number, clean=False))


def _start(state: State, mask: int) -> State:
    """Start the processes that do not run. A process that starts has a new network namespace."""
    started = 0
    for number in members(mask):
        broker = state.brokers[number]
        if broker.status == DOWN:
            started |= 1 << number
            state = state.with_broker(number, broker._replace(status=STARTING))
    harm = state.harm
    return state._replace(
        harm=harm._replace(
            cuts=tuple(cut & ~started for cut in harm.cuts),
            own_cuts=tuple(0 if started >> n & 1 else cut for n, cut in enumerate(harm.own_cuts)),
            deaf=harm.deaf & ~started,
            mute=harm.mute & ~started,
        )
    )


def heal(model: Model, state: State, fault: int) -> State:
    """Return the state after a fault was healed: processes started, connections restored."""
    state = state._replace(run=state.run._replace(healed=state.run.healed | 1 << fault))
    for effect in reversed(model.schedule[fault].effects):
        if isinstance(effect, Ends):
            state = _start(state, state.run.targets[fault])
        else:
            state = _restore(model, state, fault, effect)
    return state


def _impair(model: Model, state: State, fault: int, effect: Effect) -> State:
    """Return the state with an effect that holds until it is healed."""
    harm, mask = state.harm, state.run.targets[fault]
    others = model.policy.everyone & ~mask
    running = _running(state)
    match effect:
        case Stalls():
            harm = harm._replace(stalled=harm.stalled | mask & running)
        case Cuts(channels=("replication",)):
            lost = lost_fetches(model, effect, mask)
            there = tuple(cut | lost[n] & running for n, cut in enumerate(harm.cuts))
            harm = harm._replace(cuts=there)
            if not effect.served:
                here = tuple(
                    cut | (lost[n] if running >> n & 1 else 0)
                    for n, cut in enumerate(harm.own_cuts)
                )
                harm = harm._replace(own_cuts=here)
        case Cuts(channels=("controllers",), nodes=nodes):
            harm = harm._replace(away=harm.away | (mask if nodes == "targets" else others))
        case Cuts(channels=("clients",), nodes=nodes, direction=direction):
            cut = (mask if nodes == "targets" else others) & running
            harm = harm._replace(
                deaf=harm.deaf | (cut if direction != "to_peers" else 0),
                mute=harm.mute | (cut if direction != "from_peers" else 0),
            )
        case Configures():
            harm = harm._replace(settings=harm.settings | 1 << fault)
        case QuorumLost():
            harm = harm._replace(quorum=False)
    return state._replace(harm=harm)


def _restore(model: Model, state: State, fault: int, effect: Effect) -> State:
    """Return the state without an effect, unless another fault in force has it."""
    harm, mask = state.harm, state.run.targets[fault]
    match effect:
        case Stalls():
            lasting = _still_hit(model, state, lambda one, hit: hit * isinstance(one, Stalls))
            harm = harm._replace(stalled=harm.stalled & (~mask | lasting))
        case Cuts(channels=("replication",)):
            lost = list(lost_fetches(model, effect, mask))
            for other, one in _in_force(model, state):
                if isinstance(one, Cuts) and one.channels == ("replication",):
                    still_lost = lost_fetches(model, one, state.run.targets[other])
                    lost = [gone & ~left for gone, left in zip(lost, still_lost, strict=True)]
            harm = harm._replace(
                cuts=_without(harm.cuts, lost), own_cuts=_without(harm.own_cuts, lost)
            )
        case Cuts(channels=channels):
            everyone = model.policy.everyone

            def cut(one: Effect, hit: int) -> int:
                if not isinstance(one, Cuts) or one.channels != channels:
                    return 0
                return hit if one.nodes == "targets" else everyone & ~hit

            ended = cut(effect, mask) & ~_still_hit(model, state, cut)
            if channels == ("controllers",):
                harm = harm._replace(away=harm.away & ~ended)
            else:
                harm = harm._replace(deaf=harm.deaf & ~ended, mute=harm.mute & ~ended)
        case Configures():
            state = _without_elr(model, state, effect)
            harm = harm._replace(settings=harm.settings & ~(1 << fault))
        case QuorumLost():
            harm = harm._replace(quorum=all(one != effect for _, one in _in_force(model, state)))
    return state._replace(harm=harm)


def _in_force(model: Model, state: State) -> Iterator[tuple[int, Effect]]:
    run = state.run
    for fault in range(run.injected):
        if not run.healed >> fault & 1:
            for effect in model.schedule[fault].effects:
                yield fault, effect


def _still_hit(model: Model, state: State, hits: Callable[[Effect, int], int]) -> int:
    """Return the replicas that the faults in force hit; hits: the replicas that an effect hits."""
    still = 0
    for fault, effect in _in_force(model, state):
        still |= hits(effect, state.run.targets[fault])
    return still


def _running(state: State) -> int:
    return sum(1 << n for n, broker in enumerate(state.brokers) if broker.alive)


def lost_fetches(model: Model, effect: Cuts, mask: int) -> tuple[int, ...]:
    """Return for each broker the replicas whose fetches from it are lost."""
    everyone = model.policy.everyone
    from_targets = everyone if effect.among or effect.served else everyone & ~mask
    from_others = 0 if effect.served else mask
    return tuple(
        (from_targets if mask >> n & 1 else from_others) & ~(1 << n) for n in range(model.replicas)
    )


def _without(cuts: tuple[int, ...], lost: Sequence[int]) -> tuple[int, ...]:
    return tuple(cut & ~gone for cut, gone in zip(cuts, lost, strict=True))
