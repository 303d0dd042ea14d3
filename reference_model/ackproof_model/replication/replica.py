"""The actions of one replica: metadata, appends, fetches, AlterPartition, the end of its process.

The rules follow `kafka.cluster.Partition` and `kafka.server.AbstractFetcherThread` of 4.1.1, and of
the versions in which they were different (`Profile`). They are functions of plain values, for all
searches: a schedule (`prediction.transitions`), an adversary and an operator decide which actions
happen. Before each action stands its weakest legal condition (`can_…`): a search may take the
action less often, with a reason, but writes the condition nowhere again. A fetch is one action and
one record. A leader learns one fetch later that the follower has the
record, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ackproof_model.configuration import Profile
from ackproof_model.replication.controller import (
    alter_isr,
    alter_partition_accepted,
    with_version,
)
from ackproof_model.replication.isr import (
    active,
    joins_as_dead,
    joins_as_old_incarnation,
    joins_only_alive,
    may_join,
    waits_for_epoch_start,
)
from ackproof_model.replication.leader import (
    advanced_high_watermark,
    committed,
    enough_in_sync,
    fences_fetch,
)
from ackproof_model.replication.log_truncation import follow, kept_end
from ackproof_model.replication.policy import Policy
from ackproof_model.replication.state import (
    DOWN,
    NOBODY,
    UNASSIGNED,
    WITHOUT_REPLICA,
    Broker,
    Controller,
    Log,
    entry,
    epoch_of,
    members,
)


def leads(broker: Broker, number: int) -> bool:
    return broker.alive and broker.leader == number


def behind(policy: Policy, controller: Controller, broker: Broker, number: int) -> bool:
    """Whether a broker lacks metadata of the partition that concerns it."""
    if (broker.leader, broker.epoch) != (controller.leader, controller.epoch):
        return True
    if broker.leader != number:
        return False
    if policy.in_flight:
        return broker.version != controller.version
    return broker.isr != controller.isr or broker.pending != 0


def can_learn(policy: Policy, controller: Controller, broker: Broker, number: int) -> bool:
    """Whether a broker may apply metadata: it runs, has a replica, and lacks some.

    `ReplicaManager.applyDelta`, `ReplicaManager.becomeLeaderOrFollower`.
    """
    return (
        broker.alive and controller.assigned(number) and behind(policy, controller, broker, number)
    )


def learn(policy: Policy, controller: Controller, broker: Broker, number: int) -> Broker:
    """Return a broker that has applied the latest metadata.

    WHO: a broker. WHEN: `can_learn`. THEN: it leads or follows (`Partition.makeLeader`,
    `makeFollower`). A leader begins an epoch at its log end offset. If it believes that it leads,
    it keeps its high watermark and the log end offsets of the ISR's members, even if another broker
    has led in between (`isNewLeader`); another replica joins after a fetch in this epoch. It
    forgets replicas that have moved away (`updateAssignmentAndIsr`). A new leader knows no log end
    offset of the followers. Before 2.0 it keeps its high watermark; later it begins at 0, which
    only delays acks.
    """
    if controller.leader != number:
        return following(policy.profile, broker, controller)
    if (broker.leader, broker.epoch) == (number, controller.epoch):
        view = broker._replace(version=0, isr=controller.isr, pending=0)
        if controller.assignment is not None:
            view = _of_assignment(controller, view)
    else:
        end, led = len(broker.log), broker.leader == number
        known = controller.isr if led else 0
        view = Broker(
            broker.status,
            broker.clean,
            broker.log,
            number,
            controller.epoch,
            hw=min(broker.hw, end) if led or policy.profile.keeps_high_watermark else 0,
            isr=controller.isr,
            start=end if waits_for_epoch_start(policy) else 0,
            remote=tuple(
                broker.remote[r] if known >> r & 1 else NOBODY for r in range(policy.replicas)
            ),
        )
        if controller.assignment is not None:
            view = _of_assignment(controller, view)
    return advance_high_watermark(policy, view, number)


def _of_assignment(controller: Controller, leader: Broker) -> Broker:
    """Return a leader that knows which brokers have a replica."""
    known = [controller.assigned(number) for number in range(len(leader.remote))]
    remote = tuple(
        max(end, NOBODY) if assigned else UNASSIGNED
        for end, assigned in zip(leader.remote, known, strict=True)
    )
    gone = sum(1 << number for number, assigned in enumerate(known) if not assigned)
    return leader._replace(remote=remote, stale=leader.stale & ~gone)


def can_delete(controller: Controller, broker: Broker, number: int) -> bool:
    """Whether a broker may delete its replica: it runs, and the partition has moved away.

    `ReplicaManager.applyDelta` (`TopicsDelta.localChanges`), after a restart `LogManager` and
    `BrokerMetadataPublisher`, which delete what the first metadata image lacks (stray replicas).
    """
    gone = not controller.assigned(number)
    return broker.alive and gone and deleted(broker) != broker


def deleted(broker: Broker) -> Broker:
    """Return a broker without its replica.

    WHO: a broker. WHEN: `can_delete`. THEN: its log is gone. A replica that moves back before has
    its old log; afterwards it begins with an empty one.
    """
    return WITHOUT_REPLICA._replace(status=broker.status)


def following(profile: Profile, broker: Broker, controller: Controller) -> Broker:
    """Return a broker that has learned of another leader, or of its absence."""
    latest = controller.leader, controller.epoch
    end, watermark, truncating = follow(
        profile,
        known=(broker.leader, broker.epoch),
        latest=latest,
        log_end=len(broker.log),
        high_watermark=broker.hw,
        truncating=broker.truncating,
    )
    log = broker.log[:end]
    return Broker(broker.status, broker.clean, log, *latest, hw=watermark, truncating=truncating)


def advance_high_watermark(policy: Policy, leader: Broker, number: int) -> Broker:
    """Return the leader with its high watermark moved.

    Once it has passed the start of the epoch, the start is dropped: the rules read only the larger
    of the two (`isr.join_offset`), and the high watermark never goes back.
    """
    if not leader.remote:  # see `reduction`
        frozen = policy.freeze and leader.isr.bit_count() < policy.min_isr
        return leader if frozen else leader._replace(hw=len(leader.log))
    watermark = advanced_high_watermark(
        policy,
        number,
        current=leader.hw,
        log_end=len(leader.log),
        fetched=leader.remote,
        isr=leader.isr,
        maximal=leader.maximal,
    )
    start = leader.start if watermark < leader.start else 0
    if (watermark, start) == (leader.hw, leader.start):
        return leader
    return leader._replace(hw=watermark, start=start)


def can_append(policy: Policy, leader: Broker, number: int) -> bool:
    """Whether a broker may append: it leads, and the ISR that it knows is large enough.

    `Partition.appendRecordsToLeader`.
    """
    return leads(leader, number) and enough_in_sync(policy, leader.isr)


def append(policy: Policy, leader: Broker, number: int, record: int) -> Broker:
    """Return a leader that has appended a record.

    WHO: a leader. WHEN: `can_append`, and a request arrives. THEN: the record is in its log.
    """
    longer = leader._replace(log=(*leader.log, entry(leader.epoch, record)))
    return advance_high_watermark(policy, longer, number)


def can_ack(policy: Policy, leader: Broker, number: int, offset: int) -> bool:
    """Whether a leader may answer acks=all for an offset of its log.

    The high watermark has passed it, and the maximal ISR is large enough
    (`Partition.checkEnoughReplicasReachOffset`). With acks=1 and acks=0 nothing is waited for.
    """
    if policy.acks != "all":
        return True
    enough = enough_in_sync(policy, leader.maximal)
    return leads(leader, number) and committed(offset, leader.hw) and enough


def can_fetch(policy: Policy, follower: Broker, number: int, leader: Broker, source: int) -> bool:
    """Whether a follower may fetch from a broker: both take that broker for the leader.

    From 2.1 both have the same epoch (KIP-320, `Partition.localLogWithEpochOrThrow`). The leader
    answers only brokers that have a replica (`followerReplicaOrThrow`).
    """
    follows = follower.leader == source != number
    return (
        follows
        and answers_fetch(policy, follower, leader, source)
        and not (leader.remote and leader.remote[number] == UNASSIGNED)
    )


def fetch(
    policy: Policy, follower: Broker, number: int, leader: Broker, source: int
) -> tuple[str, Broker, Broker] | None:
    """Return 'truncate' or 'fetch', follower and leader after a fetch; None if nothing changes.

    WHO: a follower. WHEN: `can_fetch`. THEN: it truncates (KIP-101, KIP-279, KIP-595), or it
    appends the next record, and the leader knows its log end offset. A request in flight has the
    broker epochs of the time when it was sent (`Partition.addBrokerEpochToIsr`): a later fetch does
    not change them.
    """
    if not can_fetch(policy, follower, number, leader, source):
        return None
    end = len(follower.log)
    keeps = kept_end(
        policy.profile,
        tuple(map(epoch_of, leader.log)),
        tuple(map(epoch_of, follower.log)),
        truncating=follower.truncating,
        high_watermark=follower.hw,
    )
    if follower.truncating or keeps < end:
        kept, watermark = follower.log[:keeps], min(follower.hw, keeps)
        return "truncate", follower._replace(log=kept, hw=watermark, truncating=False), leader
    if end > len(leader.log):
        return None
    after = follower._replace(log=follower.log + leader.log[end : end + 1])
    if policy.profile.keeps_high_watermark:  # the response has the high watermark before this fetch
        after = after._replace(hw=min(len(after.log), leader.hw))
    renewed = leader.stale & 1 << number & ~(leader.pending if policy.in_flight else 0)
    if leader.remote[number] == end and not renewed and after == follower:
        return None
    informed = fetched(policy, leader._replace(stale=leader.stale & ~renewed), source, number, end)
    return "fetch", after, informed


def answers_fetch(policy: Policy, follower: Broker, leader: Broker, source: int) -> bool:
    """Whether a follower fetches from a broker that leads and does not refuse its epoch."""
    return (
        follower.alive
        and leads(leader, source)
        and not fences_fetch(policy, leader.epoch, follower.epoch)
    )


def fetched(policy: Policy, leader: Broker, number: int, follower: int, end: int) -> Broker:
    """Return a leader after a follower has fetched from an offset, the end of its log."""
    remote = (*leader.remote[:follower], end, *leader.remote[follower + 1 :])
    return advance_high_watermark(policy, leader._replace(remote=remote), number)


def can_request_isr(leader: Broker, number: int) -> bool:
    """Whether a broker may ask for another ISR: it leads, and no other request is in flight.

    `Partition.maybeShrinkIsr`, `Partition.maybeExpandIsr`, `PartitionState.isInflight`.
    """
    return leads(leader, number) and not leader.pending


def can_shrink(leader: Broker, number: int, late: int) -> bool:
    """Whether a leader may ask to remove followers (a bitmask) from the ISR, as they lag.

    How far a follower lags and for how long is no condition here: a follower that has every record
    may have been late, too, before its last fetch (`Partition.getOutOfSyncReplicas`).
    """
    members_only = late and not late & ~leader.isr
    return bool(can_request_isr(leader, number) and members_only and not late >> number & 1)


def joinable(policy: Policy, controller: Controller, leader: Broker, number: int) -> list[int]:
    """Return the replicas that a broker may ask to add to the ISR (`Partition.canAddReplicaToIsr`).

    They have reached the high watermark and the start of the epoch (KAFKA-7128), and are neither
    fenced nor shutting down (`isr.joins_only_alive`).
    """
    if not can_request_isr(leader, number):
        return []
    hw, start = leader.hw, leader.start
    return [
        replica
        for replica in members(policy.everyone & ~leader.isr)
        if may_join(policy, leader.remote[replica], high_watermark=hw, epoch_start=start)
        and (active(controller, replica) or not joins_only_alive(policy))
    ]


def request_isr(
    policy: Policy, controller: Controller, leader: Broker, number: int, isr: int
) -> Iterator[tuple[Controller, Broker]]:
    """Yield controller and leader after a request for an ISR (AlterPartition).

    WHO: a leader. WHEN: `can_shrink`, or a follower is `joinable`. THEN: the request is in flight,
    with a new member in the maximal ISR; or it is answered at once (`Policy.in_flight`), and the
    leader uses the old ISR until it learns the new one. Before 2.7 the leader writes the ISR to
    ZooKeeper and waits for the result.
    """
    asking = leader._replace(pending=isr)
    if policy.in_flight and policy.profile.alter_partition:
        yield controller, asking
        return
    answered = answer_isr(policy, controller, asking, number)
    if answered is None or answered[0] == "refuse":
        return
    _, after, _ = answered
    if policy.in_flight:
        yield after._replace(version=0), learn(policy, after, asking, number)
    else:
        yield after, asking if isr & ~leader.isr else leader


def accepts_isr(policy: Policy, controller: Controller, leader: Broker, number: int) -> bool:
    """Whether a request is of the current leader, which knows the latest ISR (KIP-497)."""
    current = (
        leader.version == controller.version if policy.in_flight else leader.isr == controller.isr
    )
    return alter_partition_accepted(controller, number, leader.epoch, current=current)


def can_answer_isr(policy: Policy, controller: Controller, leader: Broker, number: int) -> bool:
    """Whether the controller may answer a request: one is in flight, and it is not outdated.

    `ReplicationControlManager.validateAlterPartitionData`. The leader of an outdated request keeps
    it until it learns newer metadata.
    """
    return bool(leader.pending) and accepts_isr(policy, controller, leader, number)


def answer_isr(
    policy: Policy, controller: Controller, leader: Broker, number: int
) -> tuple[str, Controller, Broker] | None:
    """Return 'apply' or 'refuse', controller and leader after an answer; None if nothing changes.

    WHO: the controller. WHEN: `can_answer_isr`. THEN: the ISR is committed
    (`ReplicationControlManager.alterPartition`, KIP-497), or refused, because a new member is not
    alive (KIP-841) or has restarted (KIP-903). After INELIGIBLE_REPLICA the leader withdraws its
    request.

    Kafka checks every member of the new ISR (`ineligibleReplicasForIsr`). For old members that is
    the same: the controller has taken one that is not alive, or has restarted, out of the ISR, so
    the request is outdated. With both checks the mutants could not tell one from the other.
    """
    if not can_answer_isr(policy, controller, leader, number):
        return None
    added = leader.pending & ~leader.isr
    if joins_as_dead(policy, controller, added) or joins_as_old_incarnation(
        policy, added, leader.stale
    ):
        return "refuse", controller, leader._replace(pending=0)
    after = alter_isr(policy, controller, leader.pending)
    return "apply", with_version(controller, after) if policy.in_flight else after, leader


def forget(policy: Policy, leader: Broker, restarted: int) -> Broker:
    """Return a leader whose follower restarted: its last fetch came from the old incarnation.

    WHO: a leader. WHEN: together with the follower's `enrol`. THEN: the fetch does not let it join.
    From 3.5 the controller refuses to add it to the ISR until it fetches again (KIP-903). Before
    2.7 a follower joins the ISR by a fetch, so one of an old incarnation does not count.
    """
    if not leader.remote or leader.remote[restarted] < 0:
        return leader
    if policy.profile.broker_epochs:
        return leader._replace(stale=leader.stale | 1 << restarted)
    if policy.profile.alter_partition:
        return leader
    remote = (*leader.remote[:restarted], NOBODY, *leader.remote[restarted + 1 :])
    return leader._replace(remote=remote)


def can_end(broker: Broker) -> bool:
    """Whether a broker's process may end: it runs."""
    return broker.alive


def ended(policy: Policy, broker: Broker, *, clean: bool = False) -> Broker:
    """Return a broker whose process has ended.

    WHO: a broker. WHEN: `can_end`; clean: `controller.can_exit`. THEN: it keeps its log, because
    the page cache survives SIGKILL, and its high watermark where a rule of the version reads it.
    """
    hw = min(broker.hw, len(broker.log)) if policy.profile.keeps_high_watermark else 0
    return Broker(DOWN, clean and policy.elr, broker.log, NOBODY, 0, hw=hw)


def crashed(down: Broker, lengths: Iterable[int]) -> Iterator[Broker]:
    """Yield what the disk of a dead broker may have: a log of some length, a high watermark.

    WHO: the machine of a broker. WHEN: its process has `ended`. THEN: the disk has what was written
    to it. A power loss leaves any prefix (`LogLoader.recover`): Kafka fsyncs nothing before a
    segment is full (`log.flush.interval.messages`), but the kernel may have written any part of it.
    The high watermark is that of the last checkpoint
    (`replica.high.watermark.checkpoint.interval.ms`, 5 s).
    """
    for length in lengths:
        log: Log = down.log[:length]
        for hw in range(min(down.hw, length) + 1):
            yield down._replace(log=log, hw=hw)
