"""The input of a prediction: a configuration, and the profile of its Kafka version.

A `Configuration` has the settings that decide about acked records, under Kafka's names. A `Profile`
has the rules that differ between Kafka versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from enum import Flag, StrEnum, auto
from functools import cache
from typing import Literal

from ackproof_model.kafka_settings import ACKS, MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION, RETRIES

Acks = Literal["0", "1", "all"]

#: The oldest version whose rules are modelled: the oldest that ackproof runs.
OLDEST = (0, 10, 2)
#: The newest line whose rules were compared with Kafka's. Later versions are predicted by them.
NEWEST = (4, 4)


class Truncation(StrEnum):
    """The offset to which a follower truncates its log when it begins to follow a leader.

    HIGH_WATERMARK: its own high watermark. KIP_101: the end of its latest epoch in the leader's
    log, its own high watermark if the leader does not know a later epoch. KIP_279: the end of the
    largest epoch that both know, in as many rounds as it takes. ON_FETCH: the same, at each fetch
    (KIP-595).
    """

    HIGH_WATERMARK = "high watermark"
    KIP_101 = "KIP-101"
    KIP_279 = "KIP-279"
    ON_FETCH = "KIP-595"


class Reader(Flag):
    """Who reads a rule of a version.

    SCHEDULE: the exact search of a schedule. ANY_ORDER: the searches whose results are stored
    (`worst_case.minima`). AUDIT: the eras for which an audit answers apart.
    """

    SCHEDULE = auto()
    ANY_ORDER = auto()
    AUDIT = auto()


#: Metadata of a rule that not everybody reads.
_BY_SEARCHES = {"read_by": Reader.SCHEDULE | Reader.ANY_ORDER}
_BY_SCHEDULES = {"read_by": Reader.SCHEDULE}
_BY_AUDITS = {"read_by": Reader.AUDIT}
_BUT_STORED_SEARCHES = {"read_by": Reader.SCHEDULE | Reader.AUDIT}
_BY_NONE_OF_THEM = {"read_by": Reader(0)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The rules that depend on the Kafka version.

    zookeeper: leader and ISR are in ZooKeeper, the controller is one of the brokers, and brokers
        are alive as long as their ZooKeeper session; before 3.3, as ackproof runs these versions.
    failover_keeps_isr: a new ZooKeeper controller leaves dead brokers in the ISR; before 2.4
        (KAFKA-3143).
    alter_partition: a leader requests an ISR change from the controller and continues meanwhile;
        from 2.7 (KIP-497). Before, it writes the ISR to ZooKeeper itself and waits.
    shrink_bumps_epoch: an ISR that shrinks raises the leader epoch; before 3.6 (KAFKA-15021).
    truncation: see `Truncation`. epoch_start: a replica joins the ISR only once it has reached the
    start of the leader epoch; from 2.0.1 (KAFKA-7128).
    fetch_fencing: a leader refuses fetches of another leader epoch, from 2.1 (KIP-320).
    hw_freeze: the leader never advances its high watermark while |ISR| is below
        min(min.insync.replicas, replication_factor); from 3.7.0 (KAFKA-15583).
    elr: eligible leader replicas, on by default for new clusters from 4.1 (KIP-966).
    stale_fetch: a follower may append a late fetch response of an older leader epoch; before
        3.9.1, and in 4.0.0 (KAFKA-18723, KAFKA-18991). Not modelled by a rule.
    broker_epochs: a replica joins the ISR only as the incarnation that fetched, from 3.5
        (KIP-903).
    directory_drops_elr: a new log directory empties the ELR of its partitions; before 4.3
        (apache/kafka#20716). Not modelled by a rule.
    fenced_last_known: a fenced last known leader may be elected, in 4.0.0 and 4.0.1 with ELR on
        (KAFKA-19522).
    completes_with_all: a reassignment is complete once all its replicas are in the ISR; from 3.8
        (KAFKA-15665) to 4.2. Before and after, those that it adds are enough (KAFKA-19975).
    smaller_completes_with_all: that is so if it leaves fewer replicas; from 3.8.
    unclean_by_default: unclean.leader.election.enable is true unless set; before 0.11.
    unclean_by_setting: the controller reads this setting. With KRaft it does from 3.9 on
        (KAFKA-12670): before, only a requested election (`electLeaders`) is unclean.
    short_timers: replica.lag.time.max.ms is 10 s and zookeeper.session.timeout.ms 6 s unless set;
        before 2.5 (KIP-537). Then they are 30 and 18 s.

    transactions: brokers know idempotent and transactional producers, from 0.11 (KIP-98).

    `transactions` only:
    verifies_transactions: a log asks the coordinator before a transaction's first record, from 3.6
        (KIP-890 part 1).
    transactions_v2: clients may use transactions v2, from 4.0 (KIP-890 part 2).
    double_bump: the coordinator's own abort raises the epoch twice with v2, in 4.0.0 (KAFKA-19367).
    first_sequence_zero: the first sequence number of a v2 producer must be 0, from 4.1.
    strict_markers: v2 markers must have a newer epoch, from 4.2 (KIP-1228).
    skips_markers: a coordinator takes a partition without a leader for deleted, and skips its
        marker; from 4.3 (KAFKA-17573, KAFKA-20734).

    `consumer_groups` only:
    group_fencing: the group refuses a transaction's offsets of another generation, and waits for
        transactions in progress, from 2.5 (KIP-447).
    clients_truncate: clients compare leader epochs after an election (KIP-320), from 2.4: before,
        metadata has no reliable epochs (`MetadataResponse.hasReliableLeaderEpochs`).
    acks_truncated_commits: until it is unloaded, a coordinator takes the high watermark of the next
        leader's records for that of its own; from 4.0 to 4.1.2, in 4.2.0, 4.2.1 and 4.3.0
        (KAFKA-20634).

    `share_groups` only:
    share_groups: brokers have share groups (KIP-932) in general availability, from 4.2.
    added_share_partitions_from_begin: a share group gets an added partition of a topic that it
        knows from its begin, from 4.4 (KAFKA-20742).
    share_start_only_moves_on: the share coordinator never stores a start offset, or number of
        completed records, below the one that it knows, from 4.4.

    A new rule is read by everybody unless its metadata says otherwise: then the stored searches do
    not have it, and audits of its versions say *not decided* until `ci/lab/minima` has searched.
    """

    zookeeper: bool = False
    failover_keeps_isr: bool = False
    alter_partition: bool = True
    shrink_bumps_epoch: bool = field(default=False, metadata=_BY_SEARCHES)
    truncation: Truncation = Truncation.ON_FETCH
    epoch_start: bool = True
    fetch_fencing: bool = True
    hw_freeze: bool
    elr: bool = field(metadata=_BUT_STORED_SEARCHES)
    stale_fetch: bool = field(metadata=_BUT_STORED_SEARCHES)
    broker_epochs: bool = True
    directory_drops_elr: bool = field(default=False, metadata=_BY_AUDITS)
    fenced_last_known: bool = False
    completes_with_all: bool = field(default=False, metadata=_BY_NONE_OF_THEM)
    smaller_completes_with_all: bool = field(default=True, metadata=_BY_NONE_OF_THEM)
    unclean_by_default: bool = field(default=False, metadata=_BUT_STORED_SEARCHES)
    unclean_by_setting: bool = field(default=True, metadata=_BUT_STORED_SEARCHES)
    short_timers: bool = field(default=False, metadata=_BY_SCHEDULES)
    transactions: bool = field(default=True, metadata=_BY_AUDITS)
    verifies_transactions: bool = field(default=True, metadata=_BY_NONE_OF_THEM)
    transactions_v2: bool = field(default=True, metadata=_BY_AUDITS)
    double_bump: bool = field(default=False, metadata=_BY_AUDITS)
    first_sequence_zero: bool = field(default=True, metadata=_BY_AUDITS)
    strict_markers: bool = field(default=True, metadata=_BY_NONE_OF_THEM)
    skips_markers: bool = field(default=True, metadata=_BY_AUDITS)
    group_fencing: bool = field(default=True, metadata=_BY_NONE_OF_THEM)
    clients_truncate: bool = field(default=True, metadata=_BY_AUDITS)
    acks_truncated_commits: bool = field(default=False, metadata=_BY_NONE_OF_THEM)
    share_groups: bool = field(default=True, metadata=_BY_NONE_OF_THEM)
    added_share_partitions_from_begin: bool = field(default=True, metadata=_BY_AUDITS)
    share_start_only_moves_on: bool = field(default=True, metadata=_BY_NONE_OF_THEM)

    @classmethod
    def of(cls, kafka_version: str) -> Profile:
        """Return the profile of a version such as ``3.9.1``.

        Raises ValueError if it is not a version, or older than 0.10.2.
        """
        patch = _numbers(kafka_version)
        if patch < OLDEST:
            raise ValueError(
                f"kafka_version {kafka_version!r} is not modelled: use "
                f"{'.'.join(map(str, OLDEST))} or later"
            )
        return _profile(patch)

    @classmethod
    @cache
    def not_read_by(cls, reader: Reader) -> frozenset[str]:
        """Return the rules that a reader ignores."""
        return frozenset(
            rule.name
            for rule in fields(cls)
            if reader not in rule.metadata.get("read_by", ~Reader(0))
        )

    @property
    def truncates_first(self) -> bool:
        """Whether a follower truncates by leader epoch in a step of its own, and then fetches."""
        return self.truncation in {Truncation.KIP_101, Truncation.KIP_279}

    @property
    def keeps_high_watermark(self) -> bool:
        """Whether a follower may truncate to its own high watermark."""
        return self.truncation in {Truncation.HIGH_WATERMARK, Truncation.KIP_101}

    @property
    def truncates_by_epoch(self) -> bool:
        """Whether followers truncate all that a new leader lacks: from 2.1 (KIP-279, KIP-320)."""
        by_epoch = self.truncation in {Truncation.KIP_279, Truncation.ON_FETCH}
        return by_epoch and self.epoch_start and self.fetch_fencing

    def elects_uncleanly(self, setting: bool | None) -> bool:
        """Whether the controller elects a replica outside the ISR without a request for it.

        setting: unclean.leader.election.enable, None for the version's default
        (`ConfigurationControlManager.uncleanLeaderElectionEnabledForTopic`).
        """
        return self.unclean_by_setting and (self.unclean_by_default if setting is None else setting)

    @property
    def lag_time_s(self) -> float:
        """The default of `replica.lag.time.max.ms`, in seconds."""
        return 10.0 if self.short_timers else 30.0

    @property
    def session_timeout_s(self) -> float:
        """The default of a broker's session timeout, in seconds.

        `broker.session.timeout.ms`; `zookeeper.session.timeout.ms` with ZooKeeper.
        """
        if not self.zookeeper:
            return 9.0
        return 6.0 if self.short_timers else 18.0


#: The releases between these have KAFKA-20634, whose mend the next release of each line has.
_ACKS_TRUNCATED_COMMITS = (
    ((4, 0, 0), (4, 0, 2)),
    ((4, 1, 0), (4, 1, 2)),
    ((4, 2, 0), (4, 2, 1)),
    ((4, 3, 0), (4, 3, 0)),
)
#: Since this version, logs and records have leader epochs (KIP-98, KIP-101).
LEADER_EPOCHS_SINCE = (0, 11)
#: Since this version, a replica's directory is part of its assignment (KIP-858).
DIRECTORY_IDS_SINCE = (3, 7)


@cache
def _profile(patch: tuple[int, ...]) -> Profile:
    version = patch[:2]
    return Profile(
        zookeeper=version < (3, 3),
        failover_keeps_isr=version < (2, 4),
        alter_partition=version >= (2, 7),
        shrink_bumps_epoch=version < (3, 6),
        truncation=_truncation(version),
        epoch_start=patch >= (2, 0, 1),
        fetch_fencing=version >= (2, 1),
        hw_freeze=version >= (3, 7),
        elr=version >= (4, 1),
        stale_fetch=patch < (3, 9, 1) or patch == (4, 0, 0),
        broker_epochs=version >= (3, 5),
        directory_drops_elr=version < (4, 3),
        fenced_last_known=version == (4, 0),
        completes_with_all=(3, 8) <= version < (4, 3),
        smaller_completes_with_all=version >= (3, 8),
        unclean_by_default=version < (0, 11),
        unclean_by_setting=version < (3, 3) or version >= (3, 9),
        short_timers=version < (2, 5),
        transactions=version >= (0, 11),
        verifies_transactions=version >= (3, 6),
        transactions_v2=version >= (4, 0),
        double_bump=patch == (4, 0, 0),
        first_sequence_zero=version >= (4, 1),
        strict_markers=version >= (4, 2),
        skips_markers=version >= (4, 3),
        group_fencing=version >= (2, 5),
        clients_truncate=version >= (2, 4),
        acks_truncated_commits=any(
            first <= patch <= last for first, last in _ACKS_TRUNCATED_COMMITS
        ),
        share_groups=version >= (4, 2),
        added_share_partitions_from_begin=version >= (4, 4),
        share_start_only_moves_on=version >= (4, 4),
    )


@cache
def _with_elr(kafka_version: str, elr: bool | None) -> Profile:
    profile = Profile.of(kafka_version)
    return profile if elr is None else replace(profile, elr=elr)


def _truncation(version: tuple[int, ...]) -> Truncation:
    if version < LEADER_EPOCHS_SINCE:
        return Truncation.HIGH_WATERMARK
    if version < (2, 0):
        return Truncation.KIP_101
    return Truncation.KIP_279 if version < (2, 7) else Truncation.ON_FETCH


#: The most requests in flight of an idempotent producer: brokers keep as many batches of each.
MOST_IN_FLIGHT_IDEMPOTENT = 5


def idempotence_conflicts(*, acks: str, retries: int, max_in_flight: int) -> tuple[str, ...]:
    """Return the settings with which a producer cannot be idempotent, by their names.

    KIP-98, KIP-679: `ProducerConfig.postProcessAndValidateIdempotenceConfigs`,
    `rd_kafka_conf_finalize`.
    """
    conflicts = {
        ACKS: acks != "all",
        RETRIES: retries == 0,
        MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION: max_in_flight > MOST_IN_FLIGHT_IDEMPOTENT,
    }
    return tuple(name for name, conflict in conflicts.items() if conflict)


@cache
def _numbers(kafka_version: str) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+)|\.|-|$)", kafka_version)
    if match is None:
        raise ValueError(f"kafka_version {kafka_version!r} is not a version such as '4.1.0'")
    return int(match[1]), int(match[2]), int(match[3] or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The settings of one partition, its brokers and the producer that writes to it.

    Times are in seconds. retries: how often a producer sends a record again after a retriable
    error; three and more count as unlimited. unclean_leader_election, replica_lag_time_max_s,
    session_timeout_s: None for the version's default. brokers: the brokers in the cluster, None for
    as many as replicas; it matters to a fault on any broker, and with ZooKeeper, where a broker is
    the controller. elr: whether the feature eligible.leader.replicas.version is on,
    None for the version's default.

    Raises ValueError for values that Kafka or its clients refuse.
    """

    kafka_version: str
    acks: Acks
    idempotence: bool
    retries: int
    max_in_flight: int
    replication_factor: int
    min_insync_replicas: int
    unclean_leader_election: bool | None = None
    replica_lag_time_max_s: float | None = None
    session_timeout_s: float | None = None
    delivery_timeout_s: float = 120.0
    brokers: int | None = None
    elr: bool | None = None

    def __post_init__(self) -> None:
        Profile.of(self.kafka_version)
        if self.acks not in ("0", "1", "all"):
            raise ValueError(f"acks {self.acks!r} is not one of '0', '1', 'all'")
        least = {
            "retries": 0,
            "max_in_flight": 1,
            "replication_factor": 1,
            "min_insync_replicas": 1,
            "replica_lag_time_max_s": 0,
            "session_timeout_s": 0,
            "delivery_timeout_s": 0,
        }
        for name, minimum in least.items():
            value = getattr(self, name)
            if value is not None and value < minimum:
                raise ValueError(f"{name} is {value}: it must be at least {minimum}")
        if self.brokers is not None and self.brokers < self.replication_factor:
            raise ValueError(
                f"brokers is {self.brokers}: "
                f"{self.replication_factor} replicas need as many brokers"
            )
        if self.idempotence and idempotence_conflicts(
            acks=self.acks, retries=self.retries, max_in_flight=self.max_in_flight
        ):
            raise ValueError(
                "idempotence needs acks 'all', retries of at least 1 and max_in_flight of at most "
                f"{MOST_IN_FLIGHT_IDEMPOTENT}, not {self.acks!r}, {self.retries} and "
                f"{self.max_in_flight}"
            )

    @property
    def profile(self) -> Profile:
        """The rules of `kafka_version`, with the feature level of `elr`."""
        return _with_elr(self.kafka_version, self.elr)

    @property
    def unclean_election(self) -> bool:
        """Whether a replica outside the ISR may become leader without a requested election."""
        return self.profile.elects_uncleanly(self.unclean_leader_election)

    @property
    def lag_time_s(self) -> float:
        """The seconds after which a lagging follower leaves the ISR."""
        given = self.replica_lag_time_max_s
        return self.profile.lag_time_s if given is None else given

    @property
    def session_s(self) -> float:
        """The seconds after which the controller fences a silent broker."""
        given = self.session_timeout_s
        return self.profile.session_timeout_s if given is None else given
