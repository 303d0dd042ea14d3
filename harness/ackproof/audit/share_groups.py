"""Whether a configuration has share groups (KIP-932), and their settings.

A group's own settings are in the cluster, not in files; brokers have the defaults of some.
"""

from __future__ import annotations

from ackproof.audit.setups import Setup
from ackproof.own_config.configuration import FileLine, Given, kafka_default
from ackproof.scenario.share_groups import AUTO_OFFSET_RESET, shows_use

#: Kafka's defaults of the brokers' settings of share groups and of `__share_group_state`.
_DEFAULTS = {
    "group.share.delivery.count.limit": "5",
    "group.share.max.delivery.count.limit": "10",
    "group.share.record.lock.duration.ms": "30000",
    "group.share.max.record.lock.duration.ms": "60000",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    AUTO_OFFSET_RESET: "latest",
}


def shares(setup: Setup) -> bool:
    """Whether a file shows a share group, by a setting of the brokers or of a consumer."""
    settings = (setup.own.broker, *(one.settings for one in setup.consumers))
    return setup.partition.profile.share_groups and any(
        isinstance(given.source, FileLine) and shows_use(key, given.value)
        for each in settings
        for key, given in each.items()
    )


def of_shares(setup: Setup, key: str) -> Given:
    """Return a setting that is in force for share groups that have no own value."""
    given = setup.own.broker.get(key)
    if given is not None and given.value:
        return given
    return Given(_DEFAULTS[key], kafka_default(setup.partition.kafka_version))
