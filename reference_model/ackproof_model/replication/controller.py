"""The controller: fencing, registration, controlled shutdown, and the changes of the partition.

It is one atomic state machine: its own log is a fsynced quorum (KIP-500), on dedicated nodes. What
it writes about the partition is `kafka.partition_change`, the exact port of Kafka's class.
"""

from __future__ import annotations

from functools import lru_cache

from ackproof_model.kafka.partition_change import (
    MIGRATING,
    Cluster,
    ControllerRules,
    Election,
    Registration,
    Target,
    apply,
    partition_change,
)
from ackproof_model.replication.policy import Policy, effective_min_isr
from ackproof_model.replication.state import NOBODY, Controller, members

#: A metadata.version at which an ISR that shrinks keeps the leader epoch (from 3.6, KAFKA-15021)
#: and no directories are recorded (before 3.7).
_METADATA_VERSION = 16


def active(controller: Controller, replica: int) -> bool:
    """Whether a broker is neither fenced nor in controlled shutdown."""
    return not (controller.fenced | controller.stopping) >> replica & 1


def change(
    policy: Policy,
    before: Controller,
    target_isr: int,
    *,
    unclean: int = 0,
    election: Election | None = None,
) -> Controller:
    """Return the partition after its ISR was asked to become `target_isr`.

    `unclean` are replicas known to have crashed: they are not eligible (KIP-966). `election` is
    one that was asked for.
    """
    if not policy.checks.isr_election:  # anyone may lead, as if in sync
        candidates = [r for r in (before.leader, *range(policy.replicas)) if r != NOBODY]
        target_isr |= next((1 << r for r in candidates if active(before, r)), 0)
    return _changed(
        before,
        target_isr,
        unclean,
        replicas=policy.replicas,
        min_isr=effective_min_isr(policy.min_insync_replicas, policy.replicas),
        elr=policy.elr,
        election=election or (Election.UNCLEAN if policy.unclean_election else Election.ONLINE),
        fenced_last_known=policy.profile.fenced_last_known,
    )


@lru_cache(maxsize=1 << 16)
def _changed(
    before: Controller,
    target_isr: int,
    unclean: int,
    *,
    replicas: int,
    min_isr: int,
    elr: bool,
    election: Election,
    fenced_last_known: bool,
) -> Controller:
    """`change`, remembered: there are few states of a controller."""
    now = Registration(
        replicas=tuple(range(replicas)),
        directories=(MIGRATING,) * replicas,
        isr=tuple(members(before.isr)),
        leader=before.leader,
        leader_epoch=before.epoch,
        partition_epoch=0,
        recovering=False,
        elr=tuple(members(before.elr)),
        last_known_elr=() if before.last_known == NOBODY else (before.last_known,),
    )
    target = Target(
        election=election,
        isr=tuple(members(target_isr)),
        unclean_shutdown=tuple(members(unclean)),
    )
    cluster = Cluster(
        rules=_RULES[fenced_last_known],
        acceptable=lambda replica: active(before, replica),
        min_isr=min_isr,
        elr=elr,
        metadata_version=_METADATA_VERSION,
        default_directory=lambda _: MIGRATING,
    )
    written = partition_change(now, target, cluster)
    if written is None:
        return before
    after = apply(now, written)
    last_known = after.last_known_elr[0] if after.last_known_elr else NOBODY
    return before._replace(
        leader=after.leader,
        epoch=after.leader_epoch,
        isr=sum(1 << r for r in after.isr),
        elr=sum(1 << r for r in after.elr),
        last_known=last_known,
    )


#: The controller's rules, by `Profile.fenced_last_known`: those of 4.0, and of 4.1.1 and later.
_RULES = {True: ControllerRules.of((4, 0, 0)), False: ControllerRules.of((4, 1, 1))}


def alter_partition_accepted(
    policy: Policy, controller: Controller, leader: int, epoch: int, *, current: bool
) -> bool:
    """Whether the controller takes an AlterPartition from a broker that leads in `epoch`.

    It refuses a wrong leader or leader epoch, and an old partition epoch; `current`: the broker
    knows the latest one (`ReplicationControlManager.validateAlterPartitionData`, KIP-497).
    """
    checks = policy.checks
    if checks.leader_epoch_check and (controller.leader, controller.epoch) != (leader, epoch):
        return False
    return current or not checks.partition_epoch_check


def fence(policy: Policy, controller: Controller, replica: int) -> Controller:
    """Return the state after a broker's session ended (`handleBrokerFenced`)."""
    bit = 1 << replica
    fenced = controller._replace(
        fenced=controller.fenced | bit, stopping=controller.stopping & ~bit
    )
    return _without(policy, fenced, replica)


def begin_shutdown(policy: Policy, controller: Controller, replica: int) -> Controller:
    """Return the state after a broker asked for controlled shutdown (KIP-143, KIP-500)."""
    stopping = controller._replace(stopping=controller.stopping | 1 << replica)
    return _without(policy, stopping, replica)


def _without(policy: Policy, controller: Controller, replica: int) -> Controller:
    if not controller.isr >> replica & 1:
        return controller
    return change(policy, controller, controller.isr & ~(1 << replica))


def register(policy: Policy, controller: Controller, replica: int, *, clean: bool) -> Controller:
    """Return the state after a fenced broker's new incarnation registered and was unfenced."""
    return unfence(policy, enrol(policy, controller, replica, clean=clean), replica)


def enrol(policy: Policy, controller: Controller, replica: int, *, clean: bool) -> Controller:
    """Return the state after a fenced broker's new incarnation registered; it is still fenced.

    A broker that was not shut down cleanly leaves ISR and ELR (KIP-966,
    `handleUncleanBrokerShutdown`).
    """
    bit = 1 << replica
    held = (controller.isr | controller.elr) & bit
    if policy.elr and held and not clean and policy.checks.unclean_registration:
        return change(policy, controller, controller.isr & ~bit, unclean=bit)
    return controller


def unfence(policy: Policy, controller: Controller, replica: int) -> Controller:
    """Return the state after a broker was unfenced: it elects only where there is no leader."""
    controller = controller._replace(fenced=controller.fenced & ~(1 << replica))
    if controller.leader == NOBODY:
        return change(policy, controller, controller.isr)
    return controller
