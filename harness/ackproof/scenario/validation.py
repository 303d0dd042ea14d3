"""Checks combinations of a scenario's fields, and yields warnings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ackproof import kafka_versions
from ackproof.kafka_versions import caps_min_isr, uses_zookeeper
from ackproof.scenario.client import JavaConsumerSettings, JavaProducerSettings
from ackproof.scenario.kafka_keys import Scope, ignored
from ackproof.scenario.model import Scenario
from ackproof.scenario.topics import TopicSpec
from ackproof.scenario.types import Problem, Setting, YamlPath, padding
from ackproof.scenario.workload import Sends, Workload, consumer_problems, transaction_problems
from ackproof.scope import beyond
from ackproof_model.configuration import Profile
from ackproof_model.kafka_settings import (
    BROKER_SESSION_TIMEOUT_MS,
    CLEANUP_POLICY,
    ENABLE_IDEMPOTENCE,
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
    ZOOKEEPER_SESSION_TIMEOUT_MS,
)

#: librdkafka's default of `message.max.bytes`, and the bytes of the longest key.
_MESSAGE_MAX_BYTES, _KEY_BYTES = 1_000_000, 32

#: Java clients read PEM from this version on.
_PEM_SINCE = (2, 7)

#: Maximum number of partitions that the probe reads and writes.
PROBED_PARTITIONS = 24

#: The pattern of some topic settings, and its meaning in words.
_TOPIC_SETTINGS = {
    MIN_INSYNC_REPLICAS: (r"[1-9][0-9]{0,3}", "a whole number from 1"),
    UNCLEAN_LEADER_ELECTION_ENABLE: (r"true|false", "true or false"),
    CLEANUP_POLICY: (
        r"(delete|compact)(, ?(delete|compact))?",
        "delete, compact, or both with a comma",
    ),
}


def problems(scenario: Scenario) -> Iterator[Problem]:
    """Yield problems outside the faults; later ones may follow from the first."""
    kind = scenario.cluster_kind
    created = scenario.topics if scenario.senders.create_topics else ()
    yield from _client_problems(scenario)
    yield from _certificate_problems(scenario)
    yield from kind.problems(scenario.kafka, created)
    for name, topic in scenario.topics.items():
        yield from _topic_problems(name, topic)
        yield from kind.topic_problems(name, topic)
    if scenario.workload.listener not in ("EXTERNAL", *scenario.cluster.listeners):
        legal = ", ".join(("EXTERNAL", *scenario.cluster.listeners))
        yield (
            ("workload", "listener"),
            f"{scenario.workload.listener!r} is not a listener for clients here ({legal}); "
            "cluster.listeners adds more",
        )
    if scenario.workload.topic in scenario.workload.beside:
        yield (
            ("workload", "beside", scenario.workload.topic),
            "the workload itself writes to this topic: name another topic in beside",
        )
    for name, sends in scenario.sends.items():
        path: YamlPath = ("workload",)
        if name != scenario.workload.topic:
            path = ("workload", "beside", name)
        if name not in scenario.topics:
            legal = ", ".join(sorted(scenario.topics))
            field = ("topic",) if path == ("workload",) else ()
            yield (*path, *field), f"{name!r} is not a topic here ({legal})"
            continue
        topic = scenario.topics[name]
        yield from _ack_problems(name, topic, sends.settings.acks, scenario.kafka)
        yield from _sends_problems(name, sends, path, scenario)
    if scenario.workload.probe and len(scenario.written) > PROBED_PARTITIONS:
        yield (
            ("workload", "probe"),
            f"the probe has clients of its own for each of the {len(scenario.written)} partitions "
            f"that are written to, and they may be {PROBED_PARTITIONS} at most: remove partitions "
            "or the probe",
        )


def _sends_problems(
    topic: str, sends: Sends, path: YamlPath, scenario: Scenario
) -> Iterator[Problem]:
    partitions = scenario.topics[topic].partitions
    if sends.partition is not None and sends.partition >= partitions:
        yield (
            (*path, "partition"),
            f"{sends.partition} is not a partition of {topic} (0 to {partitions - 1})",
        )
    if sends.partition is not None and sends.keys is not None:
        yield (
            (*path, "keys"),
            "keys have no effect with a fixed partition: remove partition or keys",
        )
    limit = "message.max.bytes" if sends.client.java is None else "max.request.size"
    most = int(sends.client_settings.get(limit, _MESSAGE_MAX_BYTES)) - _KEY_BYTES
    if sends.size.min <= most < sends.size.max:
        yield (
            (*path, "size"),
            f"{limit} allows values of up to {most} bytes, and max is {sends.size.max}",
        )
    if sends.settings.idempotence and not kafka_versions.has_idempotence(scenario.kafka):
        yield (
            (*path, "settings", ENABLE_IDEMPOTENCE),
            f"idempotent producers need Kafka 0.11.0 (KIP-98) or later, and kafka is "
            f"{scenario.kafka}: set it to false",
        )


def _client_problems(scenario: Scenario) -> Iterator[Problem]:
    workload = scenario.workload
    yield from scenario.senders.problems(scenario.every_fault)
    if scenario.expect.reordered != "any" and not scenario.senders.order_is_recorded:
        yield ("expect", "reordered"), "an acked log does not contain the order of sends: remove it"
    for key in ("read_availability", "write_availability", "steps"):
        if getattr(scenario.expect, key) and not workload.probe:
            yield ("expect", key), "only the probe measures this: set workload.probe to true"
    ids = {fault.id for fault in scenario.every_fault} - {None}
    for name in scenario.expect.steps.keys() - ids:
        known = ", ".join(sorted(filter(None, ids))) or "no fault has one"
        yield ("expect", "steps", name), f"there is no fault with this id ({known})"
    if scenario.expect.stopped != "any" and not any(
        sends.may_stop_for for sends in scenario.sends.values()
    ):
        yield (
            ("expect", "stopped"),
            "it counts producers that stop for an error in workload.may_stop_for: name one there",
        )
    if scenario.expect.follower_fetch != "any" and not scenario.rack_aware:
        yield (
            ("expect", "follower_fetch"),
            "only consumers of librdkafka with client.rack record it: give a group this setting",
        )
    for key, problem in transaction_problems(workload.transactions, workload.settings):
        yield ("workload", "settings", key), problem
    yield from scenario.senders.forwarding_problems()
    for where, problem in consumer_problems(
        workload.consumers, list(scenario.sends), scenario.topics
    ):
        yield ("workload", "consumers", *where), problem


def _certificate_problems(scenario: Scenario) -> Iterator[Problem]:
    """Yield Java clients that cannot read PEM certificates."""
    protocol = scenario.cluster_kind.security_protocol
    versions = {client.java for client in scenario.clients if client.java}
    old = sorted(version for version in versions if kafka_versions.numbers(version) < _PEM_SINCE)
    if old and protocol.upper().endswith("SSL"):
        yield (
            ("workload", "client"),
            f"the Java client {old[0]} reads no PEM certificates, which came with 2.7.0 (KIP-651), "
            "and TLS needs them here: use a later client, or a listener without TLS",
        )


def _topic_problems(name: str, topic: TopicSpec) -> Iterator[Problem]:
    # org.apache.kafka.common.internals.Topic
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name) or name in (".", "..") or name[:2] == "__":
        yield (
            ("topics", name),
            f"{name!r} is not a topic name (up to 249 letters, digits, '.', '_' and '-'; "
            "not '.' or '..', and not beginning with '__')",
        )
    for key, given in topic.settings.items():
        if problem := padding(key, given):
            yield ("topics", name, "settings", key), problem
    for key, (pattern, legal) in _TOPIC_SETTINGS.items():
        value = topic.settings.get(key)
        if value is not None and not re.fullmatch(pattern, str(value).lower()):
            yield ("topics", name, "settings", key), f"{value!r} is not legal ({legal})"


def _ack_problems(name: str, topic: TopicSpec, acks: str, kafka: str) -> Iterator[Problem]:
    above = topic.min_insync_replicas > topic.replication_factor
    if acks == "all" and above and not kafka_versions.caps_min_isr(kafka):
        yield (
            ("topics", name, "settings", MIN_INSYNC_REPLICAS),
            f"{topic.min_insync_replicas} is more than the {topic.replication_factor} replicas, so "
            f"Kafka {kafka} acks nothing with acks: all",
        )


#: Settings that exist in one mode only, by whether that mode is ZooKeeper.
_OF_METADATA = {
    True: frozenset({ZOOKEEPER_SESSION_TIMEOUT_MS}),
    False: frozenset({BROKER_SESSION_TIMEOUT_MS, "broker.heartbeat.interval.ms"}),
}


def warnings(scenario: Scenario) -> Iterator[Problem]:
    """Yield legal settings of a scenario that are probably mistakes."""
    for name, topic in scenario.topics.items():
        yield from _replication_warnings(name, topic, scenario.kafka)
        path: YamlPath = ("topics", name, "settings")
        yield from _key_warnings("topic", topic.settings, path, scenario.kafka)
        yield from (((*path, key), text) for key, text in beyond(topic.settings))
    yield from _client_warnings(scenario.workload)
    if not scenario.cluster_kind.is_described:
        return
    path = ("cluster", "settings")
    cluster = scenario.cluster
    for key, text in beyond({**cluster.settings, **cluster.features}):
        yield ("cluster", "settings" if key in cluster.settings else "features", key), text
    yield from _key_warnings("broker", cluster.settings, path, scenario.kafka)
    for number, own in scenario.cluster.overrides.items():
        path = ("cluster", "overrides", number, "settings")
        yield from _key_warnings("broker", own.settings, path, scenario.kafka)


def _replication_warnings(name: str, topic: TopicSpec, kafka: str) -> Iterator[Problem]:
    path = ("topics", name, "settings", MIN_INSYNC_REPLICAS)
    least, replicas = topic.min_insync_replicas, topic.replication_factor
    if least > replicas:
        effect = (
            f"Kafka {kafka} takes it as {replicas}, so one broker that is down or behind stops "
            "every write with acks=all"
            if caps_min_isr(kafka)
            else f"Kafka {kafka} refuses every write with acks=all"
        )
        yield (
            path,
            f"{least} is above the replication factor {replicas}: {effect}; "
            f"{max(replicas - 1, 1)} is usual",
        )
    elif least == replicas > 1:
        yield (
            path,
            f"{least} is the replication factor: one broker that is down or behind stops every "
            f"write with acks=all; {replicas - 1} is usual",
        )
    if topic.unclean_leader_election and not Profile.of(kafka).unclean_by_setting:
        yield (
            ("topics", name, "settings", UNCLEAN_LEADER_ELECTION_ENABLE),
            f"the KRaft controller of Kafka {kafka} ignores it: only from 3.9 on may it elect "
            "uncleanly without a request (KAFKA-12670)",
        )


def _client_warnings(workload: Workload) -> Iterator[Problem]:
    """Yield the settings that a Java client of this version ignores."""
    settings_at: dict[YamlPath, object] = {("workload",): workload.settings}
    for part in ("beside", "consumers"):
        for name, clients in getattr(workload, part).items():
            settings_at["workload", part, name] = clients.settings
    for path, settings in settings_at.items():
        if isinstance(settings, JavaProducerSettings | JavaConsumerSettings):
            for key, reason in settings.ignored().items():
                yield (*path, "settings", key), reason


def _key_warnings(
    scope: Scope, settings: Mapping[str, Setting], path: YamlPath, kafka: str
) -> Iterator[Problem]:
    zookeeper = uses_zookeeper(kafka)
    for key in settings:
        if reason := ignored(scope, key, kafka):
            yield (*path, key), reason
        elif key in _OF_METADATA[not zookeeper]:
            mode = "ZooKeeper" if zookeeper else "KRaft"
            yield (*path, key), f"Kafka {kafka} runs with {mode} here and ignores it"
