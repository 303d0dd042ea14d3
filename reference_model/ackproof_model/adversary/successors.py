"""All steps from a state: perturbations, which reduce their budget, and free steps.

This is the readable specification; `packing` runs the same rules fast. The search leaves out states
by four reductions; tests compare searches with and without them.

- Decided (`decided`): no budget but shrinks is left, the leader runs and is not in controlled
  shutdown, no reassignment removes it, no other broker believes that it leads, and its log has
  every acked record. No step can depose that leader, no other broker can append or ack, and the
  leader does not truncate, so no loss follows.
- Ack first: where a record may be acked, that is the only step. An ack only adds an acked
  record, which excludes no loss. With several records, a shortest trace may have needless acks.
- No broker learns that there is no leader (`moves`): a broker that has not learned this
  can take every step that it could take otherwise.
- An epoch's start offset is dropped once the high watermark has passed it
  (`replica.advance_high_watermark`), and state that no rule of the version reads is not stored.

There is no symmetry reduction: replicas are elected in assignment order (`controller`), so two
followers are not interchangeable.
"""

from __future__ import annotations

from collections.abc import Iterator

from ackproof_model.adversary.moves import Move, lags, moves, restart, writes
from ackproof_model.adversary.state import AdversaryModel, State
from ackproof_model.replication.controller import (
    begin_shutdown,
    can_begin_shutdown,
    can_cancel,
    can_fence,
    can_move_leader,
    can_reassign,
    cancel,
    elected,
    fence,
    preferred,
    reassign,
    with_version,
)
from ackproof_model.replication.replica import can_end, crashed, ended, fetch, forget
from ackproof_model.replication.state import NOBODY, STOPPING, UP, Broker, Controller, Label


def kills(
    model: AdversaryModel, controller: Controller, broker: Broker, number: int
) -> Iterator[Move]:
    """SIGKILL: the page cache survives, so the log stays as appended."""
    if can_end(broker):
        for after in crashed(ended(model.policy, broker), [len(broker.log)]):
            yield ("kill", number), controller, after


def power_losses(
    model: AdversaryModel, controller: Controller, broker: Broker, number: int
) -> Iterator[Move]:
    """Power loss: the log loses any suffix (`LogLoader.recover`), because nothing was fsynced."""
    spared = controller.isr if model.budgets.outside_isr else 0
    if can_end(broker) and not spared >> number & 1:
        end = len(broker.log)
        for kept in range(end if model.flush_every_record else 0, end + 1):
            for after in crashed(ended(model.policy, broker), [kept]):
                yield ("lose power", number, kept), controller, after


def clean_stops(
    model: AdversaryModel, controller: Controller, broker: Broker, number: int
) -> Iterator[Move]:
    """SIGTERM: a controlled shutdown begins (KIP-143); it ends when the broker leads nothing.

    With ZooKeeper it also ends if no other broker can lead.
    """
    # A fenced broker leads nothing and is in no ISR: its clean end changes nothing but the ELR.
    if can_begin_shutdown(broker) and can_fence(controller, number):
        after = with_version(controller, begin_shutdown(model.policy, controller, number))
        yield ("stop", number), after, broker._replace(status=STOPPING)


def fencings(
    model: AdversaryModel, controller: Controller, broker: Broker, number: int
) -> Iterator[Move]:
    """Lost session: the controller fences a running broker."""
    # That of a dead broker costs nothing (`moves`).
    if broker.alive and can_fence(controller, number):
        after = with_version(controller, fence(model.policy, controller, number))
        yield ("cut off", number), after, broker


def leader_moves(
    model: AdversaryModel, controller: Controller, broker: Broker, number: int
) -> Iterator[Move]:
    """Planned move: the controller elects a member of the ISR (PREFERRED, or after `reassign`)."""
    if can_move_leader(controller, number):
        yield ("move leader", number), elected(controller, number), broker


def reassignments(
    model: AdversaryModel, controller: Controller, broker: Broker, number: int
) -> Iterator[Move]:
    """Move replicas by an operator's request; here those whose first replica is `number`."""
    for target in model.requests:
        if target[0] == number and can_reassign(model.policy, controller, target):
            after = with_version(controller, reassign(model.policy, controller, target))
            if after != controller:
                yield ("reassign", *target), after, broker
    assignment = controller.assignment
    if assignment and assignment.replicas[0] == number and can_cancel(model.policy, controller):
        yield ("cancel", number), with_version(controller, cancel(model.policy, controller)), broker


#: In the order of `Budgets.KINDS`.
KINDS = (kills, power_losses, clean_stops, lags, fencings, leader_moves, reassignments)

#: Those that can depose a leader or end its process: all but `lags`.
DEPOSING = tuple(kind for kind, perturb in enumerate(KINDS) if perturb is not lags)


def reads_controller(model: AdversaryModel, kind: int) -> bool:
    """Whether a kind of perturbation reads or changes what the controller has committed."""
    return KINDS[kind] not in {kills, power_losses} or model.budgets.outside_isr


def decided(model: AdversaryModel, state: State) -> bool:
    """Whether no loss can follow from a state."""
    leader = state.controller.leader
    if leader == NOBODY or (state.left[-1] and any(state.left[kind] for kind in DEPOSING)):
        return False
    leading = state.brokers[leader]
    rivals = any(one.leader == n for n, one in enumerate(state.brokers) if n != leader)
    stays = leading.status == UP  # one in controlled shutdown ends by itself
    stays = stays and not replaces_leader(model, state.controller)
    return stays and not rivals and not state.writes.acked & ~leading.records


#: Those that neither read nor change a broker.
OF_NO_BROKER = (KINDS.index(reassignments),)


def replaces_leader(model: AdversaryModel, controller: Controller) -> bool:
    """Whether the leader may be replaced without a perturbation.

    A reassignment takes its replica away once it is complete, or the balancer elects another one.
    """
    leader, assignment = controller.leader, controller.assignment
    if leader == NOBODY:
        return False
    other = model.balanced and preferred(controller) != leader
    return other or bool(assignment and assignment.removing >> leader & 1)


def successors(model: AdversaryModel, state: State) -> Iterator[tuple[Label, State]]:
    """Yield every step from a state, as (label, state after it)."""
    if model.reduction:
        if decided(model, state):
            return
        acks = [step for step in _writes(model, state) if step[0][0] == "ack"]
        if acks:
            yield acks[0]
            return
    yield from _writes(model, state)
    for number, broker in enumerate(state.brokers):
        yield from _with_controller(model, state, number, broker)
        source = broker.leader
        if source not in (NOBODY, number):
            fetched = fetch(model.policy, broker, number, state.brokers[source], source)
            if fetched is not None:
                what, follower, leader = fetched
                yield (
                    (what, number, source),
                    with_brokers(state, {number: follower, source: leader}),
                )


def _writes(model: AdversaryModel, state: State) -> Iterator[tuple[Label, State]]:
    for number, broker in enumerate(state.brokers):
        for label, after, written in writes(model, broker, number, state.writes):
            yield label, with_brokers(state, {number: after})._replace(writes=written)


def _with_controller(
    model: AdversaryModel, state: State, number: int, broker: Broker
) -> Iterator[tuple[Label, State]]:
    controller = state.controller
    for label, changed, after in moves(model, controller, broker, number):
        yield label, with_brokers(state, {number: after}, changed)
    started = restart(model, controller, broker, number)
    if started is not None:
        label, changed, after = started
        known = {n: forget(model.policy, one, number) for n, one in enumerate(state.brokers)}
        yield label, with_brokers(state, {**known, number: after}, changed)
    for kind, perturb in enumerate(KINDS):
        if model.budgets.free(kind) or (state.left[kind] and state.left[-1]):
            spent = model.budgets.cost(kind)
            left = tuple(number - (at in spent) for at, number in enumerate(state.left))
            for label, changed, after in perturb(model, controller, broker, number):
                yield label, with_brokers(state, {number: after}, changed)._replace(left=left)


def with_brokers(
    state: State, changed: dict[int, Broker], controller: Controller | None = None
) -> State:
    brokers = tuple(changed.get(n, one) for n, one in enumerate(state.brokers))
    return state._replace(brokers=brokers, controller=controller or state.controller)


def lost(state: State) -> int:
    """Return the acked records that are not in the log of a leader that knows that it leads.

    Its followers truncate them.
    """
    controller = state.controller
    if controller.leader == NOBODY:
        return 0
    leader = state.brokers[controller.leader]
    if not leader.alive or (leader.leader, leader.epoch) != (controller.leader, controller.epoch):
        return 0
    return state.writes.acked & ~leader.records
