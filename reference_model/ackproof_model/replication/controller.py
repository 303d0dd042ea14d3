"""The controller: fencing, registration, controlled shutdown, and the changes of the partition.

It is one atomic state machine. KRaft: its own log is a fsynced quorum (KIP-500), on dedicated
nodes; what it writes about the partition is `kafka.partition_change`, the exact port of Kafka's
class. ZooKeeper: the controller is one of the brokers, and its rules are those of
`PartitionStateMachine`, `ReplicaStateMachine`, `Election` and `KafkaController` of 0.10.2 to 3.2:
each of its changes raises the leader epoch; an ISR change by a leader does not.

Before each action stands its weakest legal condition (`can_…`). A search may take the action less
often, with a reason; no search writes the condition again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from ackproof_model.configuration import Profile
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
from ackproof_model.kafka.reassignment import Reassignment, Reverted
from ackproof_model.replication.isr import active
from ackproof_model.replication.policy import Policy, effective_min_isr
from ackproof_model.replication.state import (
    NOBODY,
    STOPPING,
    Assignment,
    Broker,
    Controller,
    members,
)


def _changed_in_zookeeper(
    policy: Policy, before: Controller, target_isr: int, election: Election
) -> Controller:
    """Return the partition with `target_isr` and an elected leader.

    A leader that is alive stays. The last member stays in the ISR, so that it can lead again
    (`doRemoveReplicasFromIsr`).
    """
    isr = target_isr or before.isr
    leader, isr = _elected(policy, before, isr, election)
    if (leader, isr) == (before.leader, before.isr):
        return before
    return before._replace(leader=leader, isr=isr, epoch=before.epoch + 1)


def _elected(policy: Policy, before: Controller, isr: int, election: Election) -> tuple[int, int]:
    """Return leader and ISR (`Election.leaderForOffline`, `leaderForPreferredReplica`)."""
    live = policy.everyone & ~(before.fenced | before.stopping)
    if election is Election.PREFERRED and live & isr & 1:
        return 0, isr
    if before.leader != NOBODY and live >> before.leader & 1:
        return before.leader, isr
    if live & isr:
        return _first(live & isr), isr & live
    if live and election is Election.UNCLEAN:
        return _first(live), live & -live
    return NOBODY, isr


def _first(replicas: int) -> int:
    """Return the first of some replicas in assignment order."""
    return (replicas & -replicas).bit_length() - 1


def _hands_over(controller: Controller, replica: int) -> bool:
    """Whether a replica in controlled shutdown has a successor, or leads nothing.

    Otherwise it stays the leader until its process ends (`leaderForControlledShutdown`).
    """
    others = controller.isr & ~(controller.fenced | controller.stopping | 1 << replica)
    return controller.leader != replica or bool(others)


#: metadata.version: no directories are recorded (before 3.7). From 3.6 an ISR that shrinks keeps
#: the leader epoch (KAFKA-15021).
_METADATA_VERSIONS = {True: 11, False: 16}  # by `Profile.shrink_bumps_epoch`


def change(
    policy: Policy,
    before: Controller,
    target_isr: int,
    *,
    unclean: int = 0,
    election: Election | None = None,
) -> Controller:
    """Return the partition after a request for `target_isr`.

    WHO: the controller. WHEN: at any time, as part of an action below, or for an election that was
    asked for (`ReplicationControlManager.electLeader`, `KafkaController.electLeaders`). THEN: ISR,
    ELR and leader are what `PartitionChangeBuilder` or `PartitionStateMachine` make of it.

    unclean: replicas that have crashed; they are not eligible (KIP-966). election: the requested
    election, if any.
    """
    key = (before, target_isr, unclean, election)
    known = policy.remembered.get(key)
    if known is None:
        known = policy.remembered[key] = _changed(
            policy, before, target_isr, unclean, election or _by_default(policy)
        )
    return known


def _by_default(policy: Policy) -> Election:
    return Election.UNCLEAN if policy.unclean_election else Election.ONLINE


def _changed(
    policy: Policy, before: Controller, target_isr: int, unclean: int, election: Election
) -> Controller:
    if policy.profile.zookeeper:
        return _changed_in_zookeeper(policy, before, target_isr, election)
    target = Target(
        election=election,
        isr=tuple(members(target_isr)),
        unclean_shutdown=tuple(members(unclean)),
    )
    return _written(policy, before, target)


def _registration(policy: Policy, controller: Controller) -> Registration:
    """Return the partition as Kafka's controller has it."""
    replicas, adding, removing = controller.assignment or Assignment(tuple(range(policy.replicas)))
    return Registration(
        replicas=replicas,
        directories=(MIGRATING,) * len(replicas),
        isr=tuple(members(controller.isr)),
        leader=controller.leader,
        leader_epoch=controller.epoch,
        partition_epoch=0,
        recovering=False,
        elr=tuple(members(controller.elr)),
        last_known_elr=() if controller.last_known == NOBODY else (controller.last_known,),
        adding=tuple(members(adding)),
        removing=tuple(members(removing)),
    )


def _written(policy: Policy, before: Controller, target: Target) -> Controller:
    """Return the partition after the change that a controller writes for a target."""
    now = _registration(policy, before)
    cluster = Cluster(
        rules=_rules(policy.profile),
        acceptable=lambda replica: active(before, replica),
        min_isr=effective_min_isr(policy.min_insync_replicas, len(now.replicas)),
        elr=policy.elr,
        metadata_version=_METADATA_VERSIONS[policy.profile.shrink_bumps_epoch],
        default_directory=lambda _: MIGRATING,
    )
    written = partition_change(now, target, cluster)
    if written is None:
        return before
    after = apply(now, written)
    last_known = after.last_known_elr[0] if after.last_known_elr else NOBODY
    changed = before._replace(
        leader=after.leader,
        epoch=after.leader_epoch,
        isr=_mask(after.isr),
        elr=_mask(after.elr),
        last_known=last_known,
    )
    if before.assignment is None:
        return changed
    moved = Assignment(after.replicas, adding=_mask(after.adding), removing=_mask(after.removing))
    return changed._replace(assignment=moved)


def _mask(replicas: Iterable[int]) -> int:
    return sum(1 << replica for replica in replicas)


@cache
def _rules(profile: Profile) -> ControllerRules:
    """Return the controller's rules: those of 4.0 or of 4.1.1 and later, but for reassignments."""
    rules = ControllerRules.of((4, 0, 0) if profile.fenced_last_known else (4, 1, 1))
    return replace(
        rules,
        complete_with_all=profile.completes_with_all,
        smaller_with_all=profile.smaller_completes_with_all,
    )


def alter_partition_accepted(
    controller: Controller, leader: int, epoch: int, *, current: bool
) -> bool:
    """Whether the controller takes an AlterPartition from a broker that leads in `epoch`.

    It refuses a wrong leader or leader epoch, and an old partition epoch. current: the broker knows
    the latest partition epoch (`ReplicationControlManager.validateAlterPartitionData`, KIP-497).
    """
    return current and (controller.leader, controller.epoch) == (leader, epoch)


def with_version(before: Controller, after: Controller) -> Controller:
    """Return the state after a change, with the version that counts changes.

    A new leader epoch begins at version 0; requests of older epochs are refused anyway.
    """
    if after.epoch != before.epoch:
        return after._replace(version=0)
    same = (after.leader, after.isr, after.elr) == (before.leader, before.isr, before.elr)
    if same and after.assignment == before.assignment:
        return after
    return after._replace(version=before.version + 1)


def alter_isr(policy: Policy, controller: Controller, isr: int) -> Controller:
    """Return the state after a leader changed its ISR: by AlterPartition, or in ZooKeeper."""
    if policy.profile.zookeeper:
        return controller._replace(isr=isr)
    return change(policy, controller, isr)


def can_move_leader(controller: Controller, replica: int) -> bool:
    """Whether a replica may be elected in place of another leader: it runs and is in the ISR.

    `PartitionChangeBuilder.electPreferredLeader`, `Election.leaderForPreferredReplica`.
    """
    others_lead = controller.leader not in (NOBODY, replica)
    return others_lead and bool(controller.isr >> replica & 1) and active(controller, replica)


def elected(controller: Controller, replica: int) -> Controller:
    """Return the state after a replica was elected in place of another leader.

    WHO: the controller. WHEN: `can_move_leader`, and an operator or the balancer asks for it.
    """
    after = controller._replace(leader=replica, epoch=controller.epoch + 1)
    return with_version(controller, after)


def preferred(controller: Controller) -> int:
    """Return the first replica, which the balancer elects (`maybeBalancePartitionLeaders`)."""
    return controller.assignment.replicas[0] if controller.assignment else 0


def can_reassign(policy: Policy, controller: Controller, target: tuple[int, ...]) -> bool:
    """Whether replicas may be asked to move to these brokers, dead or alive; KRaft only.

    `ReplicationControlManager.validateManualPartitionAssignment`; the tools refuse dead brokers. If
    the request would elect a replica that it adds, it ends with UNKNOWN_SERVER_ERROR: that replica
    has no directory yet (`LeaderAcceptor.test`, `PartitionRegistration.directory`).
    """
    known = all(0 <= broker < policy.replicas for broker in target)
    if policy.profile.zookeeper or not target or not known or len({*target}) < len(target):
        return False
    leader = reassign(policy, controller, target).leader
    return leader == NOBODY or controller.assigned(leader)


def reassign(policy: Policy, controller: Controller, target: tuple[int, ...]) -> Controller:
    """Return the state after a request to move the replicas to these brokers, in this order.

    WHO: the controller. WHEN: `can_reassign`. THEN: the new replicas are added at once
    (`changePartitionReassignment`, KIP-455). Those that are too many go with the first change after
    which enough replicas are in the ISR (`Reassignment.completed`): this one, or a later one.
    """
    key = (controller, target)
    known = policy.remembered.get(key)
    if known is None:
        wanted = reassignment_target(_registration(policy, controller), target)
        known = policy.remembered[key] = _written(policy, controller, wanted)
    return known


def reassignment_target(now: Registration, replicas: Sequence[int]) -> Target:
    """Return what a request for these replicas asks of the partition.

    What it neither adds nor removes stays as it is, also that of an earlier request
    (`ReplicationControlManager.changePartitionReassignment`).
    """
    asked = Reassignment.between(now.replicas, replicas)
    return Target(
        replicas=asked.replicas, removing=asked.removing or None, adding=asked.adding or None
    )


def can_cancel(policy: Policy, controller: Controller) -> bool:
    """Whether a reassignment may be cancelled: there is one, and a replica that stays is in sync.

    With unclean elections it may always be (`cancelPartitionReassignment`).
    """
    reverted = _reverted(_registration(policy, controller))
    return reverted is not None and (policy.unclean_election or not reverted.unclean)


def cancel(policy: Policy, controller: Controller) -> Controller:
    """Return the state after the reassignment was cancelled.

    WHO: the controller. WHEN: `can_cancel`. THEN: the replicas that it added are gone, from the
    ISR, too (`PartitionReassignmentRevert`); they stay in the ELR.
    """
    wanted = cancellation_target(_registration(policy, controller), _by_default(policy))
    return _written(policy, controller, wanted) if wanted else controller


def cancellation_target(now: Registration, election: Election) -> Target | None:
    """Return what a cancellation asks of the partition, None without a reassignment."""
    reverted = _reverted(now)
    if reverted is None:
        return None
    return Target(
        election=election, isr=reverted.isr, replicas=reverted.replicas, removing=(), adding=()
    )


def _reverted(now: Registration) -> Reverted | None:
    moving = Reassignment(replicas=now.replicas, removing=now.removing, adding=now.adding)
    return Reverted.of(moving, now.isr) if moving.in_progress else None


def can_expire(policy: Policy, controller: Controller, replica: int) -> bool:
    """Whether a session may end while no broker is the controller: with ZooKeeper, at any time."""
    return policy.profile.zookeeper and not controller.fenced >> replica & 1


def expire(policy: Policy, controller: Controller, replica: int) -> Controller:
    """Return the state after a ZooKeeper session ended while no broker was the controller.

    WHO: the next controller. WHEN: `can_expire`. THEN: it elects another leader if the broker
    led. Otherwise the ISR keeps this and all other members that die together with the controller
    (`onControllerFailover`, `PartitionStateMachine.startup`). From 2.4 see `offline`.
    """
    expired = controller._replace(fenced=controller.fenced | 1 << replica)
    if controller.leader != replica:
        return expired
    return change(policy, expired._replace(leader=NOBODY), controller.isr)


def can_offline(policy: Policy, controller: Controller, replica: int) -> bool:
    """Whether a dead broker leaves the ISR after a failover: from 2.4, unless it is the last."""
    bit = 1 << replica
    dead = bool(controller.fenced & controller.isr & bit)
    return dead and controller.isr != bit and not policy.profile.failover_keeps_isr


def offline(policy: Policy, controller: Controller, replica: int) -> Controller:
    """Return the state without a dead broker that a failover left in the ISR.

    WHO: the next controller. WHEN: `can_offline`. THEN: the broker leaves the ISR
    (`ReplicaStateMachine.startup`, KAFKA-3143).
    """
    return change(policy, controller, controller.isr & ~(1 << replica))


def can_fence(controller: Controller, replica: int) -> bool:
    """Whether a broker's session may end: it has one, also if the broker still runs.

    `ReplicationControlManager.maybeFenceOneStaleBroker`, `KafkaController.onBrokerFailure`.
    """
    return not controller.fenced >> replica & 1


def fence(policy: Policy, controller: Controller, replica: int) -> Controller:
    """Return the state after a broker was fenced.

    WHO: the controller. WHEN: `can_fence`. THEN: the broker leaves the ISR, and another is elected
    if it led (`handleBrokerFenced`, `onBrokerFailure`).
    """
    bit = 1 << replica
    fenced = controller._replace(
        fenced=controller.fenced | bit, stopping=controller.stopping & ~bit
    )
    return _without(policy, fenced, replica)


def can_begin_shutdown(broker: Broker) -> bool:
    """Whether a broker may ask for controlled shutdown: it runs, and has not asked.

    `BrokerHeartbeatManager.calculateNextBrokerState`, `KafkaController.doControlledShutdown`.
    """
    return broker.alive and broker.status != STOPPING


def begin_shutdown(policy: Policy, controller: Controller, replica: int) -> Controller:
    """Return the state after a broker asked for controlled shutdown (KIP-143, KIP-500).

    WHO: the controller. WHEN: `can_begin_shutdown`. THEN: the broker leaves the ISR and leads no
    longer; with ZooKeeper it stays the leader if no other broker can lead.
    """
    stopping = controller._replace(stopping=controller.stopping | 1 << replica)
    if policy.profile.zookeeper and not _hands_over(controller, replica):
        return stopping
    return _without(policy, stopping, replica)


def can_exit(policy: Policy, controller: Controller, broker: Broker, replica: int) -> bool:
    """Whether a broker in controlled shutdown may end: it leads nothing.

    With ZooKeeper it also ends, after its retries, if no other broker can lead. It is then fenced,
    and its process `ended` cleanly (`BrokerHeartbeatManager.calculateNextBrokerState`,
    `KafkaServer.controlledShutdown`).
    """
    if broker.status != STOPPING:
        return False
    if controller.leader != replica:
        return True
    return policy.profile.zookeeper and not _hands_over(controller, replica)


def _without(policy: Policy, controller: Controller, replica: int) -> Controller:
    if not controller.isr >> replica & 1:
        return controller
    return change(policy, controller, controller.isr & ~(1 << replica))


def register(policy: Policy, controller: Controller, replica: int, *, clean: bool) -> Controller:
    """Return the state after a fenced broker's new incarnation registered and was unfenced.

    WHO: the controller. WHEN: `can_enrol`. THEN: `enrol` and `unfence` follow each other.
    """
    return unfence(policy, enrol(policy, controller, replica, clean=clean), replica)


def can_enrol(controller: Controller, broker: Broker, replica: int) -> bool:
    """Whether a new incarnation may register: the old process and its session have ended.

    While the session lasts it is refused (DUPLICATE_BROKER_REGISTRATION,
    `ClusterControlManager.registerBroker`).
    """
    return not broker.alive and bool(controller.fenced >> replica & 1)


def enrol(policy: Policy, controller: Controller, replica: int, *, clean: bool) -> Controller:
    """Return the state after a fenced broker's new incarnation registered; it is still fenced.

    WHO: the controller. WHEN: `can_enrol`. THEN: a broker that was not shut down cleanly leaves ISR
    and ELR (KIP-966, `handleUncleanBrokerShutdown`).
    """
    bit = 1 << replica
    member = (controller.isr | controller.elr) & bit
    if policy.elr and member and not clean:
        return change(policy, controller, controller.isr & ~bit, unclean=bit)
    return controller


def can_unfence(controller: Controller, broker: Broker, replica: int) -> bool:
    """Whether a broker may get a session again: it runs, and has none."""
    return broker.alive and bool(controller.fenced >> replica & 1)


def unfence(policy: Policy, controller: Controller, replica: int) -> Controller:
    """Return the state after a broker was unfenced.

    WHO: the controller. WHEN: `can_unfence` (after `enrol`, too). THEN: the broker may be elected,
    and is if there is no leader (KIP-500, `handleBrokerUnfenced`).
    """
    controller = controller._replace(fenced=controller.fenced & ~(1 << replica))
    if controller.leader == NOBODY:
        return change(policy, controller, controller.isr)
    return controller
