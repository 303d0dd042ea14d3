"""The controller's changes of a partition: PartitionChangeRecord, rule by rule.

`partition_change` is an exact port of `org.apache.kafka.controller.PartitionChangeBuilder.build`,
including the order of replicas in each list. A differential test compares it with Kafka's class of
each version. Every function names the method that it ports; `ControllerRules` has the differences
between versions.

Left out: `useLastKnownLeaderInBalancedRecovery` (always true in a controller; without it
`lastKnownElr` would hold more than the last leader), ZooKeeper migration (3.9), and
metadata.version below 3.2, where no recovery state can be recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from ackproof_model.kafka.reassignment import Reassignment, Replicas, contains_all, without

_T = TypeVar("_T")

NO_LEADER = -1
UNASSIGNED = "AAAAAAAAAAAAAAAAAAAAAQ"
"""`DirectoryId.UNASSIGNED` in base64: the replica has no directory yet."""
LOST = "AAAAAAAAAAAAAAAAAAAAAg"
"""`DirectoryId.LOST`: an unknown directory that is offline."""
MIGRATING = "AAAAAAAAAAAAAAAAAAAAAA"
"""`DirectoryId.MIGRATING`: an unknown directory, from before directories were recorded."""

_BUMP_UNTIL = 12  # metadata.version 3.6-IV0
_DIRECTORIES_SINCE = 17  # metadata.version 3.7-IV2


class Election(Enum):
    """The kind of an election (`PartitionChangeBuilder.Election`)."""

    PREFERRED = "PREFERRED"
    ONLINE = "ONLINE"
    UNCLEAN = "UNCLEAN"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRules:
    """The rules that depend on the controller's Kafka version.

    inactive_last_known: the last known leader is elected although it is fenced; before 4.1.0
        (KAFKA-19522).
    last_known_with_isr: the last known leader is recorded when the ISR becomes empty, and
        cleared by any change while there is a leader; since 4.1.1 it is recorded when the leader is
        removed, and cleared when one is elected (apache/kafka#20629).
    complete_with_all: a reassignment is complete once all its target replicas are in the ISR, from
        3.8.0 on (KAFKA-15665); since 4.3.0, as before 3.8, the added ones are enough (KAFKA-19975).
    smaller_with_all: that is so if the number of replicas shrinks; since 3.8.0.
    directory_drops_elr: a change of directories is computed as if ELR were off, and so empties
        the ELR; before 4.3.0 (apache/kafka#20716).
    unclean_shutdown: a broker that registers after an unclean stop leaves ISR and ELR; since 4.0
        (KIP-966; requires the feature eligible.leader.replicas.version, too).
    unclean_by_setting: unclean.leader.election.enable is read; since 3.9 (KAFKA-12670).
    """

    inactive_last_known: bool
    last_known_with_isr: bool
    complete_with_all: bool
    smaller_with_all: bool
    directory_drops_elr: bool
    unclean_shutdown: bool
    unclean_by_setting: bool

    @classmethod
    def of(cls, version: tuple[int, ...]) -> ControllerRules:
        """Return the rules of a release, given as its numbers: ``(4, 3, 1)``."""
        return cls(
            inactive_last_known=version < (4, 1),
            last_known_with_isr=version < (4, 1, 1),
            complete_with_all=(3, 8) <= version < (4, 3),
            smaller_with_all=version >= (3, 8),
            directory_drops_elr=version < (4, 3),
            unclean_shutdown=version >= (4,),
            unclean_by_setting=version >= (3, 9),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The controller's state of a partition (`PartitionRegistration`).

    directories: the log directory id of each of `replicas`. leader: -1 for none. recovering: the
    leader recovery state (KIP-704). last_known_elr: the last leader while there is none (KIP-966).
    """

    replicas: Replicas
    directories: tuple[str, ...]
    isr: Replicas
    leader: int
    leader_epoch: int
    partition_epoch: int
    recovering: bool
    elr: Replicas = ()
    last_known_elr: Replicas = ()
    removing: Replicas = ()
    adding: Replicas = ()

    def directory(self, replica: int) -> str:
        """Return the directory of a replica; LOST for a broker that has none (`directory`)."""
        if replica in self.replicas:
            return self.directories[self.replicas.index(replica)]
        return LOST


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The fields of a PartitionChangeRecord; None for a field that is absent."""

    isr: Replicas | None = None
    leader: int | None = None
    replicas: Replicas | None = None
    removing: Replicas | None = None
    adding: Replicas | None = None
    recovering: bool | None = None
    directories: tuple[str, ...] | None = None
    elr: Replicas | None = None
    last_known_elr: Replicas | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The requested state of the partition; None leaves a field as it is.

    unclean_shutdown: replicas whose broker registered after an unclean stop. directory: a replica
    and its new directory.
    """

    election: Election = Election.ONLINE
    isr: Replicas | None = None
    replicas: Replicas | None = None
    removing: Replicas | None = None
    adding: Replicas | None = None
    recovering: bool | None = None
    unclean_shutdown: Replicas = ()
    directory: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The surroundings of a partition when its change is computed.

    acceptable: whether a broker may lead it (`LeaderAcceptor`: active, its directory online).
    min_isr: min.insync.replicas, at most the replication factor (`getTopicEffectiveMinIsr`).
    elr: whether the feature eligible.leader.replicas.version is on.
    metadata_version: its feature level.
    default_directory: the directory of a broker's new replicas
    (`ClusterControlManager.defaultDir`).
    """

    rules: ControllerRules
    acceptable: Callable[[int], bool]
    min_isr: int
    elr: bool
    metadata_version: int
    default_directory: Callable[[int], str]


def partition_change(now: Registration, target: Target, cluster: Cluster) -> Change | None:
    """Return the change that the controller writes, None if nothing changes (`build`)."""
    moving = Reassignment(
        replicas=_or(target.replicas, now.replicas),
        removing=_or(target.removing, now.removing),
        adding=_or(target.adding, now.adding),
    )
    isr, replicas = _or(target.isr, now.isr), moving.replicas
    completed = moving.completed(
        isr,
        with_all=cluster.rules.complete_with_all,
        smaller_with_all=cluster.rules.smaller_with_all,
    )
    if completed is not None:  # completeReassignmentIfNeeded
        replicas, isr = completed
        moving = Reassignment(replicas=replicas, removing=(), adding=())
    elr = _target_elr(now, isr, target.unclean_shutdown, cluster)
    node, unclean = _elect(
        now, isr, elr, replicas=replicas, election=target.election, cluster=cluster
    )

    leader: int | None = None
    new_isr: Replicas | None = None
    recovering: bool | None = None
    if node != now.leader:  # tryElection
        leader = node
        if node in elr:
            isr = (node,)
            elr = tuple(replica for replica in elr if replica != node)
        if unclean:
            new_isr = (node,)
            recovering = None if now.recovering else True
    # triggerLeaderEpochBumpForReplicaReassignmentIfNeeded
    if leader is None and not contains_all(replicas, now.replicas):
        leader = now.leader
    if new_isr is not None or not cluster.elr:  # maybeUpdateRecordElr
        elr = ()
    if new_isr is None and (isr or cluster.elr) and isr != now.isr:
        new_isr = isr
    if _must_bump(now, leader, new_isr, cluster.metadata_version):
        leader = now.leader
    wanted = _or(target.recovering, now.recovering)
    change = Change(
        isr=new_isr,
        leader=leader,
        replicas=_if_new(replicas, now.replicas) if replicas else None,
        removing=_if_new(moving.removing, now.removing),
        adding=_if_new(moving.adding, now.adding),
        recovering=recovering if wanted == now.recovering else wanted,
        directories=_directories(now, target, replicas, cluster),
        elr=_if_new(elr, now.elr),
        last_known_elr=_last_known(now, leader, new_isr, cluster),
    )
    return None if change == Change() else change


def apply(now: Registration, change: Change) -> Registration:
    """Return the partition after a change (`PartitionRegistration.merge`).

    Every change raises the partition epoch; a change that names a leader raises the leader epoch,
    too, even if it is the same leader.
    """
    replicas = _or(change.replicas, now.replicas)
    directories = _or(change.directories, now.directories)
    if set(directories) <= {MIGRATING}:  # defaultToMigrating: none was ever recorded
        directories = (MIGRATING,) * len(replicas)
    return Registration(
        replicas=replicas,
        directories=directories,
        isr=_or(change.isr, now.isr),
        leader=_or(change.leader, now.leader),
        leader_epoch=now.leader_epoch + (change.leader is not None),
        partition_epoch=now.partition_epoch + 1,
        recovering=_or(change.recovering, now.recovering),
        elr=_or(change.elr, now.elr),
        last_known_elr=_or(change.last_known_elr, now.last_known_elr),
        removing=_or(change.removing, now.removing),
        adding=_or(change.adding, now.adding),
    )


def _target_elr(now: Registration, isr: Replicas, unclean: Replicas, cluster: Cluster) -> Replicas:
    """Return the eligible leader replicas (`maybePopulateTargetElr`)."""
    if not cluster.elr:
        return now.elr
    if len(isr) >= cluster.min_isr:
        return ()
    return without(java_set((*now.elr, *now.isr), presized=len(now.elr)), (*isr, *unclean))


def _elect(
    now: Registration,
    isr: Replicas,
    elr: Replicas,
    *,
    replicas: Replicas,
    election: Election,
    cluster: Cluster,
) -> tuple[int, bool]:
    """Return the leader, and whether its election is unclean (`electLeader`)."""

    def valid(replica: int) -> bool:  # isValidNewLeader
        eligible = replica in isr or (not isr and replica in elr)
        return eligible and cluster.acceptable(replica)

    first = [replicas[0]] if election is Election.PREFERRED else []
    for replica in (*first, now.leader, *replicas):
        if valid(replica):
            return replica, False
    if _may_elect_last_known(now, isr, elr, cluster):
        return now.last_known_elr[0], True
    if election is Election.UNCLEAN:
        for replica in replicas:
            if cluster.acceptable(replica):
                return replica, True
    return NO_LEADER, False


def _may_elect_last_known(
    now: Registration, isr: Replicas, elr: Replicas, cluster: Cluster
) -> bool:
    """Whether the last known leader may lead again (`canElectLastKnownLeader`)."""
    if not cluster.elr or isr or elr or len(now.last_known_elr) != 1:
        return False
    return cluster.rules.inactive_last_known or cluster.acceptable(now.last_known_elr[0])


def _must_bump(
    now: Registration, leader: int | None, isr: Replicas | None, metadata_version: int
) -> bool:
    """Whether an ISR that shrinks raises the leader epoch, as it did before 3.6 (KAFKA-15021).

    `triggerLeaderEpochBumpForIsrShrinkIfNeeded`.
    """
    old = metadata_version < _BUMP_UNTIL
    return old and leader is None and isr is not None and not contains_all(isr, now.isr)


def _last_known(
    now: Registration, leader: int | None, isr: Replicas | None, cluster: Cluster
) -> Replicas | None:
    """Return the last known leader if it changes (`maybeUpdateLastKnownLeader`)."""
    if not cluster.elr:
        return None
    if cluster.rules.last_known_with_isr:
        remember = isr == () and now.last_known_elr != (now.leader,)
        stays = NO_LEADER not in {now.leader, leader}
        forget = stays or (leader is not None and leader >= 0)
    else:
        remember = leader == NO_LEADER and not now.last_known_elr
        forget = leader is not None and leader >= 0
    if remember:
        return (now.leader,)
    return () if forget and now.last_known_elr else None


def _directories(
    now: Registration, target: Target, replicas: Replicas, cluster: Cluster
) -> tuple[str, ...] | None:
    """Return the directories of the replicas if they change (`setAssignmentChanges`)."""
    if not replicas or cluster.metadata_version < _DIRECTORIES_SINCE:
        return None
    directory = {replica: now.directory(replica) for replica in now.replicas}
    if target.directory is not None:
        directory |= [target.directory]
    directories = tuple(
        directory[replica] if replica in directory else cluster.default_directory(replica)
        for replica in replicas
    )
    return None if directories == now.directories else directories


def java_set(elements: Iterable[int], *, presized: int) -> Replicas:
    """Return the distinct elements in the order in which a `java.util.HashSet` yields them.

    The ELR is recorded in that order. presized: the size of the collection that the set was made
    from, which decides the initial capacity. (Buckets of eight and more elements are not modelled.)
    """
    distinct = tuple(dict.fromkeys(elements))
    least = int(presized / 0.75) + 1
    capacity = next(
        size
        for size in (16 << doubled for doubled in range(20))
        if size >= least and len(distinct) <= size * 0.75
    )
    return tuple(sorted(distinct, key=lambda element: (element ^ element >> 16) & (capacity - 1)))


def _or(value: _T | None, otherwise: _T) -> _T:
    return otherwise if value is None else value


def _if_new(value: Replicas, old: Replicas) -> Replicas | None:
    return None if value == old else value
