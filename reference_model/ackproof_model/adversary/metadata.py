"""The steps between the controller and one broker: metadata, AlterPartition, sessions."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof_model.adversary.replicas import behind, expansions, learn
from ackproof_model.adversary.state import (
    DOWN,
    STOPPING,
    UP,
    AdversaryModel,
    Label,
    Partition,
    Replica,
)
from ackproof_model.replication.controller import (
    alter_isr,
    alter_partition_accepted,
    enrol,
    expire,
    fence,
    may_exit,
    unfence,
)
from ackproof_model.replication.isr import joins_as_dead, joins_as_old_incarnation
from ackproof_model.replication.state import Controller, Log

Move = tuple[Label, Partition, Replica]


def committed(before: Partition, controller: Controller) -> Partition:
    """Return the partition after the controller committed a change: its version increases.

    A new leader epoch begins at version 0; requests of older epochs are refused anyway.
    """
    old = before.controller
    if controller.epoch != old.epoch:
        return Partition(controller, 0)
    same = (controller.leader, controller.isr, controller.elr) == (old.leader, old.isr, old.elr)
    return Partition(controller, before.version if same else before.version + 1)


def moves(
    model: AdversaryModel, partition: Partition, replica: Replica, number: int
) -> Iterator[Move]:
    """Yield the steps between the controller and a broker that cost no budget."""
    controller = partition.controller
    fenced = controller.fenced >> number & 1
    if not replica.alive:
        if not fenced:
            after = committed(partition, fence(model.policy, controller, number))
            yield ("fence", number), after, replica
            if model.profile.failover_keeps_isr:
                after = committed(partition, expire(model.policy, controller, number))
                yield ("expire", number), after, replica
        return
    if behind(model, partition, replica, number):
        known = learn(model, partition, replica, number)
        leads = controller.leader == number
        # No other broker knows a version of this leader epoch, so it may restart at 0.
        yield ("learn", number), partition._replace(version=0) if leads else partition, known
    if fenced:
        yield (
            ("unfence", number),
            committed(partition, unfence(model.policy, controller, number)),
            replica,
        )
    for label, requested in expansions(model, partition, replica, number):
        yield from asked(model, partition, requested, number, label)
    if replica.pending:
        yield from _alter_partition(model, partition, replica, number)
    if replica.status == STOPPING and may_exit(model.policy, controller, number):
        down = stopped(model, replica, replica.log)._replace(clean=model.policy.elr)
        yield (
            ("exit", number),
            committed(partition, fence(model.policy, controller, number)),
            down,
        )


def asked(
    model: AdversaryModel, partition: Partition, replica: Replica, number: int, label: Label
) -> Iterator[Move]:
    """Yield the steps that follow a leader's request for the ISR `replica.pending`.

    Before 2.7 it writes the ISR to ZooKeeper and waits for the result.
    """
    if model.profile.alter_partition:
        yield label, partition, replica
        return
    for _, after, leader in _alter_partition(model, partition, replica, number):
        yield label, after._replace(version=0), learn(model, after, leader, number)


def _alter_partition(
    model: AdversaryModel, partition: Partition, replica: Replica, number: int
) -> Iterator[Move]:
    """`ReplicationControlManager.alterPartition` (KIP-497, KIP-841, KIP-903).

    After INELIGIBLE_REPLICA the leader withdraws its request; after other refusals it keeps it
    until it learns newer metadata.
    """
    controller, policy = partition.controller, model.policy
    current = replica.version == partition.version
    if not alter_partition_accepted(controller, number, replica.epoch, current=current):
        return
    added = replica.pending & ~replica.isr
    if joins_as_dead(policy, controller, added) or joins_as_old_incarnation(
        policy, added, replica.stale
    ):
        yield ("refuse", number), partition, replica._replace(pending=0)
        return
    after = committed(partition, alter_isr(policy, controller, replica.pending))
    yield ("apply", number), after, replica


def restart(
    model: AdversaryModel, partition: Partition, replica: Replica, number: int
) -> Move | None:
    """Return a dead, fenced broker's new incarnation: registered, with the latest metadata.

    While the old session lasts, it is refused (DUPLICATE_BROKER_REGISTRATION).
    """
    controller = partition.controller
    if replica.status != DOWN or not controller.fenced >> number & 1:
        return None
    enrolled = committed(partition, enrol(model.policy, controller, number, clean=replica.clean))
    known = learn(model, enrolled, replica._replace(status=UP), number)
    leads = enrolled.controller.leader == number
    return (
        ("restart", number),
        enrolled._replace(version=0) if leads else enrolled,
        known._replace(clean=False),
    )


def died(model: AdversaryModel, replica: Replica, log: Log) -> Iterator[Replica]:
    """Yield a broker whose process ended, with any earlier high watermark.

    It is checkpointed every `replica.high.watermark.checkpoint.interval.ms`.
    """
    down = stopped(model, replica, log)
    for hw in reversed(range(down.hw + 1)):
        yield down._replace(hw=hw)


def stopped(model: AdversaryModel, replica: Replica, log: Log) -> Replica:
    """Return a broker whose process has ended: it keeps `log`, and its high watermark if needed."""
    hw = min(replica.hw, len(log)) if model.profile.keeps_high_watermark else 0
    nothing = (-1,) * model.replicas
    return Replica(DOWN, False, log, -1, 0, hw, 0, 0, 0, 0, nothing, 0)
