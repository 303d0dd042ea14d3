"""The topics in which coordinators keep their state, as our clusters are booted with them.

Coordinators write with acks=all. `__transaction_state` has a minimum ISR of its own and never an
unclean election (`TransactionStateManager.transactionTopicConfigs`); for `__consumer_offsets` the
brokers' defaults hold (`GroupCoordinator.groupMetadataTopicConfigs`).
"""

from __future__ import annotations

from collections.abc import Mapping

from ackproof.kafka_versions import numbers
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.model import Scenario, TopicSpec
from ackproof.scenario.types import Setting

OFFSETS = "__consumer_offsets"
TRANSACTIONS = "__transaction_state"

#: The prefix of the broker settings of each internal topic.
_PREFIXES = {OFFSETS: "offsets.topic", TRANSACTIONS: "transaction.state.log"}

_MINIMUM_ISR = "min.insync.replicas"
_UNCLEAN = "unclean.leader.election.enable"

#: Unclean elections were the default before.
_CLEAN_SINCE = (0, 11)

#: Few partitions suffice for a test, and brokers load them faster.
_PARTITIONS = 4


def default_settings(brokers: int) -> Mapping[str, int]:
    """Return the settings of internal topics in a cluster of so many brokers.

    They have as many replicas as there are brokers, up to three, so that they do not limit the
    durability of a run.
    """
    return {
        **{
            f"{prefix}.{key}": value
            for prefix in (*_PREFIXES.values(), "share.coordinator.state.topic")
            for key, value in (
                ("replication.factor", min(3, brokers)),
                ("num.partitions", _PARTITIONS),
            )
        },
        "transaction.state.log.min.isr": min(2, brokers),
        "share.coordinator.state.topic.min.isr": min(2, brokers),
    }


#: The broker settings that decide what an internal topic can lose.
SETTINGS = (
    *(f"{prefix}.replication.factor" for prefix in _PREFIXES.values()),
    "transaction.state.log.min.isr",
)


def internal_topics(cluster: ClusterSpec, kafka: str) -> Mapping[str, TopicSpec]:
    """Return the internal topics of a cluster of this Kafka version, by name."""
    settings = {**default_settings(cluster.brokers), **cluster.settings}
    older = numbers(kafka)[:2] < _CLEAN_SINCE
    own: dict[str, dict[str, Setting]] = {
        OFFSETS: {
            _MINIMUM_ISR: settings.get(_MINIMUM_ISR, 1),
            _UNCLEAN: settings.get(_UNCLEAN, older),
        },
        TRANSACTIONS: {
            _MINIMUM_ISR: settings["transaction.state.log.min.isr"],
            _UNCLEAN: False,
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


def every_topic(scenario: Scenario) -> Mapping[str, TopicSpec]:
    """Return the topics of a scenario and the internal ones, which faults may target, too."""
    return {**internal_topics(scenario.cluster, scenario.kafka), **scenario.topics}
