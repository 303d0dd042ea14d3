"""The topics of a scenario, and those in which coordinators keep their state.

Coordinators write with acks=all. `__transaction_state` has a minimum ISR of its own and never an
unclean election (`TransactionStateManager.transactionTopicConfigs`); for `__consumer_offsets` the
brokers' defaults hold (`GroupCoordinator.groupMetadataTopicConfigs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from ackproof.scenario.types import Setting, StrictModel
from ackproof_model.configuration import Profile
from ackproof_model.kafka_settings import (
    CLEANUP_POLICY,
    MIN_INSYNC_REPLICAS,
    REPLICATION_FACTOR,
    TRANSACTION_STATE_LOG_MIN_ISR,
    UNCLEAN_LEADER_ELECTION_ENABLE,
)

OFFSETS = "__consumer_offsets"
TRANSACTIONS = "__transaction_state"
SHARES = "__share_group_state"
#: The topics that only coordinators write; their records are state that outlives a client.
OF_COORDINATORS = frozenset({OFFSETS, TRANSACTIONS, SHARES})

#: The prefix of the broker settings of each internal topic.
_PREFIXES = {
    OFFSETS: "offsets.topic",
    TRANSACTIONS: "transaction.state.log",
    SHARES: "share.coordinator.state.topic",
}
_SHARES_MIN_ISR = "share.coordinator.state.topic.min.isr"

#: Few partitions suffice for a test, and brokers load them faster.
_PARTITIONS = 4


class TopicSpec(StrictModel):
    """One topic. Retention is off, so that only a loss removes a record."""

    partitions: int = Field(default=1, ge=1, le=1000, description="number of partitions")
    replication_factor: int = Field(default=3, ge=1, description="replicas of each partition")
    assignment: list[list[int]] = Field(
        default_factory=list,
        description="the brokers of each partition's replicas, the preferred leader first; "
        "partitions and replication_factor follow from it",
        examples=[[[1, 2, 3], [2, 3, 1]]],
    )
    settings: dict[str, Setting] = Field(
        default_factory=dict,
        description="topic settings, by Kafka's names",
        examples=[{"min.insync.replicas": 2, "unclean.leader.election.enable": False}],
    )

    @model_validator(mode="before")
    @classmethod
    def _counts_follow_from_the_assignment(cls, given: Any) -> Any:
        assignment = given.get("assignment") if isinstance(given, dict) else None
        if not (
            isinstance(assignment, list)
            and assignment
            and all(isinstance(one, list) for one in assignment)
        ):
            return given
        counts = {"partitions": len(assignment), "replication_factor": len(assignment[0])}
        for key, count in counts.items():
            if given.get(key, count) != count:
                raise ValueError(f"{key} is {given[key]}, but assignment has {count}: remove {key}")
        return {**given, **counts}

    @property
    def min_insync_replicas(self) -> int:
        """The effective `min.insync.replicas`; Kafka's default is 1."""
        return int(self.settings.get(MIN_INSYNC_REPLICAS, 1))

    @property
    def unclean_leader_election(self) -> bool | None:
        """Whether a replica outside the ISR may become leader; None for the version's default."""
        value = self.settings.get(UNCLEAN_LEADER_ELECTION_ENABLE)
        return None if value is None else str(value).lower() == "true"

    @property
    def compacted(self) -> bool:
        """Whether Kafka removes older records with the same key."""
        return "compact" in str(self.settings.get(CLEANUP_POLICY, "delete")).lower()


def default_settings(brokers: int) -> Mapping[str, int]:
    """Return the settings of internal topics in a cluster with this number of brokers.

    They have up to three replicas, so that they do not limit the durability of a run.
    """
    return {
        **{
            f"{prefix}.{key}": value
            for prefix in _PREFIXES.values()
            for key, value in (
                (REPLICATION_FACTOR, min(3, brokers)),
                ("num.partitions", _PARTITIONS),
            )
        },
        TRANSACTION_STATE_LOG_MIN_ISR: min(2, brokers),
        _SHARES_MIN_ISR: min(2, brokers),
    }


#: The broker settings that decide what an internal topic can lose.
SETTINGS = (
    *(f"{prefix}.replication.factor" for prefix in _PREFIXES.values()),
    TRANSACTION_STATE_LOG_MIN_ISR,
)


def coordinator_partition(key: str, partitions: int) -> int:
    """Return the partition of a coordinator's topic that keeps the state of `key`, in ASCII.

    `Utils.abs(key.hashCode()) % partitions` of Kafka's coordinators. The key is a group, a
    transactional.id, or a group, topic id and partition (`SharePartitionKey.asCoordinatorKey`).
    """
    code = 0
    for character in key.encode():
        code = (31 * code + character) % 2**32
    code = abs(code - 2**32 if code >= 2**31 else code)
    return (code if code < 2**31 else 0) % partitions


def internal_topics(
    brokers: int, own_settings: Mapping[str, Setting], kafka: str
) -> Mapping[str, TopicSpec]:
    """Return the internal topics of a cluster whose brokers have these settings of their own."""
    settings = {**default_settings(brokers), **own_settings}
    least, unclean = MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE
    own: dict[str, dict[str, Setting]] = {
        OFFSETS: {
            least: settings.get(least, 1),
            unclean: settings.get(unclean, Profile.of(kafka).unclean_by_default),
        },
        TRANSACTIONS: {least: settings[TRANSACTION_STATE_LOG_MIN_ISR], unclean: False},
        SHARES: {
            least: settings[_SHARES_MIN_ISR],
            unclean: settings.get(unclean, Profile.of(kafka).unclean_by_default),
        },
    }
    return {
        name: TopicSpec(
            partitions=int(settings[f"{prefix}.num.partitions"]),
            replication_factor=int(settings[f"{prefix}.replication.factor"]),
            settings=own[name],
        )
        for name, prefix in _PREFIXES.items()
    }
