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
from ackproof_model.replication.isr import active
from ackproof_model.replication.policy import Policy, effective_min_isr
from ackproof_model.replication.state import NOBODY, STOPPING, Broker, Controller, members


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
    replicas = policy.replicas
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
        rules=_RULES[policy.profile.fenced_last_known],
        acceptable=lambda replica: active(before, replica),
        min_isr=effective_min_isr(policy.min_insync_replicas, replicas),
        elr=policy.elr,
        metadata_version=_METADATA_VERSIONS[policy.profile.shrink_bumps_epoch],
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
    return after if same else after._replace(version=before.version + 1)


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
