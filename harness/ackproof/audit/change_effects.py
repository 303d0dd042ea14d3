"""What changes of settings make of the settings that decide which failures lose records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache, reduce

from ackproof.audit.replication import Replication, exposed, replication_of, sets_of
from ackproof.audit.setups import ELR, KAFKA, MINIMUM, REPLICAS, UNCLEAN, Setup, eras_of
from ackproof.safer_settings import BROKERS, STORAGE, Change, knows_elr
from ackproof_model.configuration import Profile
from ackproof_model.kafka_settings import (
    ACKS,
    AUTO_LEADER_REBALANCE_ENABLE,
    BROKER_RACK,
    LOG_FLUSH_INTERVAL_MESSAGES,
)

#: The version that stands for those with eligible leader replicas by default.
_NEWEST = eras_of("")[-1].release


Plan = tuple[Change, ...]
"""Changes that are made together; the first one is proposed, and names the others."""

#: What each setting changes. A minimum that exceeds the replicas cannot be set.
EFFECTS: Mapping[str, Callable[[Replication, str], Replication]] = {
    KAFKA: lambda one, value: replace(one, kafka_version=_NEWEST, elr=None, zookeeper=False),
    BROKERS: lambda one, value: replace(one, replicas=int(value), brokers=int(value), combined=0),
    STORAGE: lambda one, value: replace(one, emptied=frozenset()),
    BROKER_RACK: lambda one, value: replace(one, racks=max(one.racks, one.replicas)),
    ACKS: lambda one, value: replace(one, acks="all"),
    UNCLEAN: lambda one, value: replace(one, unclean=False),
    MINIMUM: lambda one, value: replace(one, min_insync_replicas=int(value)),
    REPLICAS: lambda one, value: replace(one, replicas=int(value)),
    ELR: lambda one, value: replace(one, elr=True, kafka_version=_NEWEST),
    AUTO_LEADER_REBALANCE_ENABLE: lambda one, value: replace(one, balanced=False),
    LOG_FLUSH_INTERVAL_MESSAGES: lambda one, value: replace(one, flushes_every_record=True),
}


@cache
def after_change(one: Replication, change: Change) -> Replication:
    """Return the settings with a change; the same ones if it cannot be made."""
    return EFFECTS[change.setting](one, change.value) if possible(one, change) else one


def possible(one: Replication, change: Change) -> bool:
    """Whether Kafka accepts a change."""
    if change.setting == MINIMUM:
        return int(change.value) <= one.replicas
    return change.setting != ELR or knows_elr(one.kafka_version)


def after_all(one: Replication, plan: Plan) -> Replication:
    return reduce(after_change, plan, one)


def different(setups: Iterable[Setup]) -> tuple[Replication, ...]:
    """Return the settings of setups, once for all that lose alike, also after changes."""
    first: dict[object, Replication] = {}
    for one in map(replication_of, setups):
        first.setdefault(rules_alike(one), one)
    return tuple(first.values())


@cache
def rules_alike(one: Replication) -> tuple[object, ...]:
    """Return what versions with the same rules have in common, before and after a change."""
    profile = Profile.of(one.kafka_version)
    return (
        exposed(one),
        sets_of(one),
        one.acks,
        one.min_insync_replicas,
        one.unclean,
        profile.elr if one.elr is None else one.elr,
        profile.stale_fetch,
        profile.unclean_by_setting,
        one.brokers,
        knows_elr(one.kafka_version),
        one.zookeeper,
    )
