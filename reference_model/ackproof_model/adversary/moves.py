"""The free steps of one broker: with the controller, and with the producer.

They are the actions of `replication`, whenever their conditions (`can_…`) hold. Where an action is
left out although it could happen, a comment gives the reason. AlterPartition requests are in flight
(`Policy.in_flight`). A record is written once.
"""

from __future__ import annotations

from collections.abc import Iterator

from ackproof_model.adversary.state import AdversaryModel, Writes
from ackproof_model.replication import replica as actions
from ackproof_model.replication.controller import (
    can_enrol,
    can_exit,
    can_expire,
    can_fence,
    can_move_leader,
    can_unfence,
    elected,
    enrol,
    expire,
    fence,
    preferred,
    unfence,
    with_version,
)
from ackproof_model.replication.state import (
    NOBODY,
    UP,
    Broker,
    Controller,
    Label,
    epoch_of,
    members,
    record_of,
)

Move = tuple[Label, Controller, Broker]


def moves(
    model: AdversaryModel, controller: Controller, broker: Broker, number: int
) -> Iterator[Move]:
    """Yield the steps between the controller and a broker that cost no budget."""
    policy = model.policy
    if not broker.alive:
        # A running broker's session ends, too: that is a perturbation (`successors.fencings`).
        if can_fence(controller, number):
            after = with_version(controller, fence(policy, controller, number))
            yield ("fence", number), after, broker
        # From 2.4 the next controller takes dead brokers out of the ISR (`offline`), in one step.
        if can_expire(policy, controller, number) and policy.profile.failover_keeps_isr:
            after = with_version(controller, expire(policy, controller, number))
            yield ("expire", number), after, broker
        return
    if _learns(model, controller, broker, number):
        told = broker if model.misses_epochs else _told_all(broker, controller)
        known = actions.learn(policy, controller, told, number)
        yield ("learn", number), _without_version(controller, number), known
    if model.balanced and number == preferred(controller) and can_move_leader(controller, number):
        yield ("balance", number), elected(controller, number), broker
    if can_unfence(controller, broker, number):
        after = with_version(controller, unfence(policy, controller, number))
        yield ("unfence", number), after, broker
    if actions.can_delete(controller, broker, number):
        yield ("delete", number), controller, actions.deleted(broker)
    for joiner in actions.joinable(policy, controller, broker, number):
        isr = broker.isr | 1 << joiner
        for after, asking in actions.request_isr(policy, controller, broker, number, isr):
            yield ("expand", number, joiner), after, asking
    answered = actions.answer_isr(policy, controller, broker, number)
    if answered is not None:
        what, after, leader = answered
        yield (what, number), after, leader
    if can_exit(policy, controller, broker, number):
        after = with_version(controller, fence(policy, controller, number))
        yield ("exit", number), after, actions.ended(policy, broker, clean=True)


def _learns(model: AdversaryModel, controller: Controller, broker: Broker, number: int) -> bool:
    """Whether a broker may learn; with `reduction`, no broker learns that there is no leader."""
    if controller.leader == NOBODY and model.reduction:
        return False
    return actions.can_learn(model.policy, controller, broker, number)


def _without_version(controller: Controller, number: int) -> Controller:
    """Return the state after a broker learned of it.

    If it leads, no other broker knows a version of this epoch, so the version may restart at 0.
    """
    return controller._replace(version=0) if controller.leader == number else controller


def lags(
    model: AdversaryModel, controller: Controller, broker: Broker, number: int
) -> Iterator[Move]:
    """Lag: a leader asks the controller to remove a follower from the ISR."""
    for late in members(broker.isr):
        if not actions.can_shrink(broker, number, 1 << late):
            continue
        isr = broker.isr & ~(1 << late)
        for after, asking in actions.request_isr(model.policy, controller, broker, number, isr):
            yield ("shrink", number, late), after, asking


def _told_all(broker: Broker, controller: Controller) -> Broker:
    """Return a broker as it is if it learns of each leader in turn.

    Left out is a leader that does not, and leads again: see `answer.MISSED`.
    """
    missed = broker.leader == controller.leader and broker.epoch + 1 < controller.epoch
    return broker._replace(leader=NOBODY) if missed and broker.remote else broker


def restart(
    model: AdversaryModel, controller: Controller, broker: Broker, number: int
) -> Move | None:
    """Return a dead, fenced broker's new incarnation: registered, with the latest metadata."""
    if not can_enrol(controller, broker, number):
        return None
    enrolled = enrol(model.policy, controller, number, clean=broker.clean)
    enrolled = with_version(controller, enrolled)
    known = broker._replace(status=UP, clean=False)
    if not enrolled.assigned(number):
        return ("restart", number), enrolled, known
    known = actions.learn(model.policy, enrolled, known, number)
    return ("restart", number), _without_version(enrolled, number), known


def writes(
    model: AdversaryModel, broker: Broker, number: int, written: Writes
) -> Iterator[tuple[Label, Broker, Writes]]:
    """Yield the append of the next record at a broker, and the acks of earlier ones.

    With acks=0 and acks=1 a record counts as acked with the append. A leader whose epoch was raised
    (by a shrink of the ISR) answers the requests of its earlier epoch, too
    (`checkEnoughReplicasReachOffset`).
    """
    policy, record = model.policy, written.records
    waits = policy.acks == "all"
    if record < model.budgets.records and actions.can_append(policy, broker, number):
        acked = written.acked if waits else written.acked | 1 << record
        longer = actions.append(policy, broker, number, record)
        yield ("write", number, record), longer, Writes(record + 1, acked)
    if not waits or not actions.leads(broker, number):
        return
    for offset, one in enumerate(broker.log):
        # A request of an earlier epoch was refused when its leader learned that it was deposed.
        own = epoch_of(one) == broker.epoch or policy.profile.shrink_bumps_epoch
        own = own or model.misses_epochs
        open_ = own and not written.acked >> record_of(one) & 1
        if open_ and actions.can_ack(policy, broker, number, offset):
            acked = written.acked | 1 << record_of(one)
            yield ("ack", number, record_of(one)), broker, Writes(written.records, acked)
