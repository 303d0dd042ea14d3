"""Which settings of a user's brokers a run's own brokers get."""

from __future__ import annotations

import re

from ackproof.own_config.settings import Settings
from ackproof.scenario.cluster import OWNED_SETTINGS, PER_TOPIC_SETTINGS
from ackproof.scenario.kafka_keys import ignored

#: Settings that a run's brokers do not get: pattern, and why.
_LEFT_OUT = (
    (
        r"(.*listener.*|.*quorum\.(voters|bootstrap.*)|port|host\.name|zookeeper\.connect.*)",
        "nodes",
    ),
    (r"(reserved\.)?broker\.(id|rack).*|advertised\..*|metadata\.log\.dir|log\.dirs?", "nodes"),
    (r"ssl\..*|sasl\..*|security\..*|.*\.(ssl|sasl)\..*|password\..*|super\.users", "security"),
    (
        r"authorizer\..*|principal\..*|delegation\..*|allow\.everyone\..*|connections\..*",
        "security",
    ),
    (r".*\.class(es|\.name)?|metric.*|kafka\.metrics.*|plugin.*|early\.start.*", "plugins"),
    (r"(log\.)?(retention|cleaner|cleanup).*|log\.retention.*|log\.cleaner.*", "retention"),
    (r"remote\.log.*|.*\.path|confluent\..*", "plugins"),
)
_WHY = {
    "nodes": "ackproof chooses nodes, addresses and folders itself",
    "security": "ackproof's own cluster has its own security (cluster.security)",
    "plugins": "classes and files of your machines are not there",
    "retention": "retention is off, so that only a loss removes a record",
}
OWN_PARTITIONS = "the scenario has its own partitions"
#: The setting that becomes a field of the scenario.
_REPLICAS = "default.replication.factor"


def left_out(key: str) -> str:
    """Return why a run's brokers do not get a setting; '' if they do, or the topic does."""
    if key == _REPLICAS or key in PER_TOPIC_SETTINGS:
        return ""
    if key == "num.partitions":
        return OWN_PARTITIONS
    if key in OWNED_SETTINGS or key == "process.roles":
        return _WHY["nodes"]
    return next((_WHY[why] for pattern, why in _LEFT_OUT if re.fullmatch(pattern, key)), "")


def taken(settings: Settings, kafka: str) -> dict[str, str]:
    """Return the settings for brokers: those that this version knows and that are not left out."""
    return {
        key: given.value
        for key, given in settings.items()
        if given.value
        and key not in (_REPLICAS, *PER_TOPIC_SETTINGS)
        and not left_out(key)
        and not ignored("broker", key, kafka)
    }
