"""Asks a running cluster for the configuration of its brokers and topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from confluent_kafka.admin import ConfigSource

from ackproof.cluster.preflight import Preflight
from ackproof.errors import ClusterError, ScenarioError
from ackproof.own_config.combining import combine
from ackproof.own_config.configuration import Count, Given, Origin, OwnConfig, Running, Topic
from ackproof.own_config.parts import Node, Part, Rank, secret


def ask(bootstrap: str, topic: str, client: Mapping[str, str]) -> OwnConfig:
    """Return the configuration of a running cluster (requests: Metadata and DescribeConfigs).

    topic: the only topic to describe; '' for all topics but Kafka's internal ones.
    `client` are client settings by librdkafka's names. Raises ClusterError if no broker
    answers or describing is not allowed, ScenarioError if there is no such topic.
    """
    try:
        cluster = Preflight(bootstrap, client)
        topics = cluster.topics()
    except ClusterError as error:
        raise ClusterError(
            error.message,
            hint="Check --from-cluster, and security.protocol, TLS and SASL in --client-config.",
        ) from None
    names = sorted(name for name in topics if not name.startswith("__"))
    if topic and topic not in topics:
        some = ", ".join(names[:10])
        raise ScenarioError(
            f"{bootstrap} has no topic {topic!r}",
            hint=f"Name one with --topic; it has {some or 'none that this client may describe'}.",
        )
    ids = sorted(cluster.addresses())
    nodes = [_broker(cluster, bootstrap, str(broker)) for broker in ids]
    origin = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    of_all = cluster.changed_settings("broker", str(ids[0]), origin=origin)
    nodes.append(
        Node(
            name="all brokers",
            settings=_given(of_all, Running(bootstrap, "dynamic")),
            rank=Rank.DYNAMIC_DEFAULT,
        )
    )
    count = Node(name="brokers", count=Count(len(ids), Running(bootstrap)))
    part = Part(
        shape="running cluster",
        nodes=(count, *nodes),
        topics=tuple(_topic(cluster, bootstrap, name) for name in ([topic] if topic else names)),
    )
    return combine([(bootstrap, part)], ())


def ask_beside(own: OwnConfig, bootstrap: str, topic: str, client: Mapping[str, str]) -> OwnConfig:
    """Return a running cluster's configuration with the clients of files.

    Raises ScenarioError for files about brokers or topics, which the cluster replaces, and what
    `ask` raises.
    """
    if own.describes_brokers or own.topics:
        raise ScenarioError(
            f"--from-cluster replaces files about brokers and topics, such as {own.read[0].file}: "
            "leave out one of them"
        )
    asked = ask(bootstrap, topic, client)
    return replace(
        asked,
        producers=own.producers,
        consumers=own.consumers,
        read=(*asked.read, *own.read),
        refused=own.refused,
        warnings=(*asked.warnings, *own.warnings),
    )


def _broker(cluster: Preflight, bootstrap: str, broker: str) -> Node:
    settings = cluster.changed_settings("broker", broker)
    combined = "controller" in settings.get("process.roles", "")
    return Node(
        name=broker,
        roles=frozenset({"broker", "controller"} if combined else {"broker"}),
        settings=_given(settings, Running(bootstrap, f"broker {broker}")),
        rank=Rank.IN_FORCE,
    )


def _topic(cluster: Preflight, bootstrap: str, name: str) -> Topic:
    layout = cluster.layout(name)
    source = Running(bootstrap, f"topic {name}")
    return Topic(
        name=name,
        partitions=Given(str(len(layout)), source),
        replication_factor=Given(str(min(map(len, layout))), source),
        settings=_given(
            cluster.changed_settings("topic", name, origin=ConfigSource.DYNAMIC_TOPIC_CONFIG),
            source,
        ),
        in_force=True,
    )


def _given(settings: Mapping[str, str], source: Origin) -> dict[str, Given]:
    return {key: Given(value, source) for key, value in settings.items() if not secret(key)}
