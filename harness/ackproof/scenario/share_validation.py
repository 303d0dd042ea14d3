"""Where a scenario's share groups (KIP-932) cannot run, or cannot be judged."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import chain

from ackproof.kafka_versions import numbers
from ackproof.scenario.librdkafka import require_accepted
from ackproof.scenario.model import Scenario
from ackproof.scenario.share_groups import (
    DEAD_LETTERS,
    GROUP_SETTINGS,
    OF_EVERY_GROUP,
    RENEWS,
    SINCE,
    TAKES_DEAD_LETTERS,
    is_whole,
    why_refused,
)
from ackproof.scenario.types import Problem, YamlPath, padding
from ackproof.scenario.workload import ConsumerGroup

#: The keys that a program of the user cannot follow.
_OF_OUR_CONSUMERS = ("acknowledge", "client", "crash_after", "poll")

#: The first librdkafka with a share consumer.
_LIBRDKAFKA_SINCE = (2, 16)


def share_group_problems(scenario: Scenario) -> Iterator[Problem]:
    """Yield where the scenario's share groups cannot run or be judged; at most one a group."""
    for name, group in scenario.workload.consumers.items():
        path: YamlPath = ("workload", "consumers", name)
        found = _of_others(group) if group.via != "share" else _of_share_group(scenario, group)
        yield from ((path + where, problem) for where, problem in found[:1])
    if scenario.share_groups:
        yield from _of_topic(scenario)
        yield from _of_brokers(scenario)


def _of_others(group: ConsumerGroup) -> list[Problem]:
    return [
        ((key,), f"only share groups have {key}: remove it, or use via: share")
        for key in ("acknowledge", "application", "group_settings")
        if key in group.changed
    ]


def _of_share_group(scenario: Scenario, group: ConsumerGroup) -> list[Problem]:
    return [
        *_of_cluster(scenario),
        *_of_client(group),
        *(
            ((key,), f"a share group has no {key}: its records are acknowledged; remove it")
            for key in ("commit", "into")
            if key in group.changed
        ),
        *_of_settings(scenario, group),
    ]


def _of_cluster(scenario: Scenario) -> Iterator[Problem]:
    if not scenario.cluster_kind.is_described:
        yield (
            ("via",),
            "a broker that ackproof started is asked whether a share group is at rest, and this "
            "cluster is attached: remove cluster.attach, or use subscribe or assign",
        )
    elif numbers(scenario.kafka) < SINCE:
        yield (
            ("via",),
            f"share groups need Kafka 4.2 (KIP-932), and kafka is {scenario.kafka}: use a later "
            "version, or subscribe or assign",
        )
    elif str(scenario.cluster.features.get("share.version", 1)) == "0":
        yield (
            ("via",),
            "cluster.features has share.version: 0, which switches share groups off: remove it, "
            "or use subscribe or assign",
        )


def _of_client(group: ConsumerGroup) -> Iterator[Problem]:
    client = group.client
    if group.is_own:
        for key in _OF_OUR_CONSUMERS:
            if key in group.changed:
                yield (
                    (key,),
                    f"{key} describes ackproof's own consumers, and application runs instead: "
                    "remove one of them",
                )
    elif client.java is not None:
        if numbers(client.java) < SINCE:
            yield (
                ("client",),
                f"java {client.java} has no share consumer: use java 4.2.0 or later, or librdkafka",
            )
    elif "renew" in group.acknowledge:
        yield (
            ("acknowledge",),
            "librdkafka's share consumer cannot renew a lock: use client: java, or accept, release "
            "and reject",
        )
    elif client.librdkafka is not None and _release(client.librdkafka) < _LIBRDKAFKA_SINCE:
        yield (
            ("client",),
            f"librdkafka {client.librdkafka} has no share consumer: use 2.16.0 or later",
        )


def _release(librdkafka: str) -> tuple[int, ...]:
    return tuple(map(int, librdkafka.split(".")))


def _of_settings(scenario: Scenario, group: ConsumerGroup) -> Iterator[Problem]:
    for key, value in group.group_settings.items():
        where = "group_settings", key
        if problem := padding(key, value):
            yield where, problem
        elif key not in GROUP_SETTINGS:
            near = difflib.get_close_matches(key, GROUP_SETTINGS, n=1)
            guess = f"did you mean {near[0]!r}?" if near else ", ".join(GROUP_SETTINGS)
            yield where, f"{key!r} is not a setting of a share group ({guess})"
        elif GROUP_SETTINGS[key] > numbers(scenario.kafka):
            since = ".".join(map(str, GROUP_SETTINGS[key]))
            yield where, f"Kafka {scenario.kafka} has no {key}, which came with {since}: remove it"
        elif problem := why_refused(key, value, scenario.cluster.settings):
            yield where, problem
    if "renew" in group.acknowledge and str(group.group_settings.get(RENEWS)).lower() == "false":
        yield (
            ("group_settings", RENEWS),
            "the brokers then refuse to renew, and acknowledge has renew: remove one of them",
        )
    letters = group.group_settings.get(DEAD_LETTERS)
    spec = scenario.topics.get(str(letters))
    if letters is not None and (
        spec is None or str(spec.settings.get(TAKES_DEAD_LETTERS, "")).lower() != "true"
    ):
        yield (
            ("group_settings", DEAD_LETTERS),
            f"{letters!r} takes no dead letters: add it to topics, with the setting "
            f"{TAKES_DEAD_LETTERS}: true",
        )
    elif letters in {*scenario.sends, *chain.from_iterable(scenario.forwarded.values())}:
        yield (
            ("group_settings", DEAD_LETTERS),
            f"{letters!r} is a topic that the workload writes to, and a dead letter in it is none "
            "of its records: name another topic",
        )
    settings = group.settings.as_client_settings()
    for key in settings:
        if f"share.{key}" in GROUP_SETTINGS:
            yield (
                ("settings", key),
                f"the consumers of a share group have no {key}: use share.{key} in group_settings",
            )
    if group.client.java is None:
        try:
            require_accepted("ShareConsumer", {"group.id": "any", **settings})
        except ValueError as error:
            yield ("settings",), str(error)


def _of_topic(scenario: Scenario) -> Iterator[Problem]:
    topic = scenario.workload.topic
    path: YamlPath = ("topics", topic, "settings")
    names = ", ".join(scenario.share_groups)
    spec = scenario.topics.get(topic)
    if spec is None:
        return  # another check reports it
    if scenario.compacts(topic):
        yield (
            (*path, "cleanup.policy") if spec.compacted else ("faults",),
            f"{topic} is compacted, so a record that the share group {names} lacks may have been "
            "removed before: use cleanup.policy: delete, or via: subscribe or assign",
        )
    if str(spec.settings.get("remote.storage.enable", "")).lower() == "true":
        yield (
            (*path, "remote.storage.enable"),
            f"share groups over tiered storage are not judged, and {names} reads {topic}: remove "
            "it, or use via: subscribe or assign",
        )


def _of_brokers(scenario: Scenario) -> Iterator[Problem]:
    """Yield problems of the brokers' settings for groups without a value of their own."""
    for key in OF_EVERY_GROUP:
        value = scenario.cluster.settings.get(key, 1)
        if not is_whole(value):
            yield ("cluster", "settings", key), f"{value!r} is not a whole number"
        for number, own in scenario.cluster.overrides.items():
            if key in own.settings:
                yield (
                    ("cluster", "overrides", number, "settings", key),
                    "a share group has one for all brokers, by which it is judged: set it in "
                    "cluster.settings",
                )
