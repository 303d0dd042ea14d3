"""Amazon MSK: the settings and the mode of a cluster that its description does not state."""

from __future__ import annotations

import re
from collections.abc import Collection

from ackproof.kafka_versions import ZOOKEEPER_UNTIL, complete, numbers
from ackproof.own_config.configuration import Default, Given, Settings
from ackproof_model.kafka_settings import (
    DEFAULT_REPLICATION_FACTOR,
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
)

#: The sentence of a warning about the values of `defaults`.
DEFAULTS_DEPEND = (
    "settings that it does not state have Amazon MSK's own defaults: "
    "unclean.leader.election.enable=true without tiered storage, min.insync.replicas=2 in three "
    "zones and 1 in two"
)
#: Values of "The default Amazon MSK configuration", which a custom one keeps if it has no other.
_DEFAULTS = {
    MIN_INSYNC_REPLICAS: "1 or 2",
    DEFAULT_REPLICATION_FACTOR: "2 or 3",
    UNCLEAN_LEADER_ELECTION_ENABLE: "true",
}


def defaults(stated: Collection[str], *, tiered: bool) -> Settings:
    """Return the settings that are not stated, with MSK's values. tiered: its storage mode."""
    known = {*stated, *([UNCLEAN_LEADER_ELECTION_ENABLE] if tiered else [])}
    return {
        key: Given(value, Default("Amazon MSK"))
        for key, value in _DEFAULTS.items()
        if key not in known
    }


def release(version: Given | None) -> Given | None:
    """Return a version without the letter of MSK's `3.7.x`, or its suffix `.tiered`, `.kraft`."""
    match = re.match(r"\d+\.\d+(\.\d+)?", version.value) if version else None
    return Given(match[0], version.source) if match and version else None


def mode(version: Given | None) -> Given | None:
    """Return the mode of an Amazon MSK cluster: before 4.0, KRaft only if the version says so."""
    stated = release(version)
    if version is None or stated is None:
        return None
    kraft = "kraft" in version.value or numbers(complete(stated.value)) >= ZOOKEEPER_UNTIL
    return Given("kraft" if kraft else "zookeeper", version.source)
