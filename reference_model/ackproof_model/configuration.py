"""The input of a prediction: a configuration, and the profile of its Kafka version.

A `Configuration` holds the settings that decide what happens to acked records, under Kafka's names.
A `Profile` holds the rules that differ between Kafka versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

Acks = Literal["0", "1", "all"]

#: The oldest version whose rules are modelled: KRaft is production ready from here (KIP-833).
OLDEST = (3, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The rules that depend on the Kafka version.

    hw_freeze: the leader never advances its high watermark while |ISR| is below
        min(min.insync.replicas, replication factor); from 3.7.0 (KAFKA-15583).
    elr: eligible leader replicas, on by default for new clusters from 4.1 (KIP-966).
    stale_fetch: a follower may append a late fetch response of an older leader epoch; before
        3.9.1, and in 4.0.0 (KAFKA-18723, KAFKA-18991). No rule of the model does that.
    leader_epochs: a follower truncates by leader epoch, from 0.11 (KIP-101); before, to its own
        high watermark. `adversary` only.
    broker_epochs: a replica joins the ISR only as the incarnation that fetched, from 3.5
        (KIP-903). `adversary` only.
    fenced_last_known: a fenced last known leader may be elected, in 4.0.0 and 4.0.1 with ELR on
        (KAFKA-19522).

    `transactions` only:
    verifies_transactions: a log asks the coordinator before a transaction's first record, from 3.6
        (KIP-890 part 1).
    transactions_v2: clients may use transactions v2, from 4.0 (KIP-890 part 2).
    double_bump: the coordinator's own abort raises the epoch twice with v2, in 4.0.0 (KAFKA-19367).
    first_sequence_zero: the first sequence number of a v2 producer must be 0, from 4.1.
    strict_markers: v2 markers must have a newer epoch, from 4.2 (KIP-1228).

    `consumer_groups` only:
    group_fencing: the group refuses a transaction's offsets of another generation, and waits for
        transactions in progress, from 2.5 (KIP-447).
    """

    hw_freeze: bool
    elr: bool
    stale_fetch: bool
    leader_epochs: bool = True
    broker_epochs: bool = True
    fenced_last_known: bool = False
    verifies_transactions: bool = True
    transactions_v2: bool = True
    double_bump: bool = False
    first_sequence_zero: bool = True
    strict_markers: bool = True
    group_fencing: bool = True

    @classmethod
    def of(cls, kafka_version: str) -> Profile:
        """Return the profile of a version such as ``3.9.1``.

        Raises ValueError if it is not a version, or older than 3.3.
        """
        profile = cls.of_any(kafka_version)
        version = _numbers(kafka_version)[:2]
        if version < OLDEST:
            raise ValueError(
                f"kafka_version {kafka_version!r} is not modelled: use {OLDEST[0]}.{OLDEST[1]} or "
                "later (KRaft)"
            )
        return profile

    @classmethod
    def of_any(cls, kafka_version: str) -> Profile:
        """Return the profile of any version, however old: `adversary` searches them all.

        Raises ValueError if it is not a version.
        """
        patch = _numbers(kafka_version)
        version = patch[:2]
        return cls(
            hw_freeze=version >= (3, 7),
            elr=version >= (4, 1),
            stale_fetch=patch < (3, 9, 1) or patch == (4, 0, 0),
            leader_epochs=version >= (0, 11),
            broker_epochs=version >= (3, 5),
            fenced_last_known=version == (4, 0),
            verifies_transactions=version >= (3, 6),
            transactions_v2=version >= (4, 0),
            double_bump=patch == (4, 0, 0),
            first_sequence_zero=version >= (4, 1),
            strict_markers=version >= (4, 2),
            group_fencing=version >= (2, 5),
        )


def _numbers(kafka_version: str) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+)|\.|-|$)", kafka_version)
    if match is None:
        raise ValueError(f"kafka_version {kafka_version!r} is not a version such as '4.1.0'")
    return int(match[1]), int(match[2]), int(match[3] or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The settings of one partition, its brokers and the producer that writes to it.

    Times are in seconds. retries: how often a producer sends a record again after a retriable
    error; three and more count as unlimited. brokers: the brokers in the cluster, None for as many
    as replicas; it matters only to a fault on any one broker. elr: whether the feature
    eligible.leader.replicas.version is on, None for the version's default.

    Raises ValueError for values that Kafka or its clients refuse.
    """

    kafka_version: str
    acks: Acks
    idempotence: bool
    retries: int
    max_in_flight: int
    replication_factor: int
    min_insync_replicas: int
    unclean_leader_election: bool = False
    replica_lag_time_max_s: float = 30.0
    session_timeout_s: float = 9.0
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
            if getattr(self, name) < minimum:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least {minimum}")
        if self.brokers is not None and self.brokers < self.replication_factor:
            raise ValueError(
                f"brokers is {self.brokers}: "
                f"{self.replication_factor} replicas need as many brokers"
            )
        # KIP-98, KIP-679: ProducerConfig refuses idempotence with any of these.
        if self.idempotence and (self.acks != "all" or self.retries < 1 or self.max_in_flight > 5):
            raise ValueError(
                "idempotence needs acks 'all', retries of at least 1 and max_in_flight of at most "
                f"5, not {self.acks!r}, {self.retries} and {self.max_in_flight}"
            )

    @property
    def profile(self) -> Profile:
        """The rules of `kafka_version`, with the feature level of `elr`."""
        profile = Profile.of(self.kafka_version)
        return profile if self.elr is None else replace(profile, elr=self.elr)
