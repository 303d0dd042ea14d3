"""Kafka Connect: workers and connectors, with clients' settings by prefix (`producer.acks=1`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ackproof.own_config.clients import PREFIXES, clients, count, under, warn_of_misspelt
from ackproof.own_config.configuration import KAFKA_CONNECT, Client, Default, Given, Topic
from ackproof.own_config.names import is_consumers, is_producers
from ackproof.own_config.parts import Format, Part, Source, UnrecognisedError
from ackproof.own_config.properties import read_as
from ackproof.own_config.tree import Text
from ackproof.scenario.kafka_keys import known

#: Worker.baseProducerConfigs: the settings of Connect's producers unless the worker changes them.
CONNECT = {
    "acks": "all",
    "enable.idempotence": "false",
    "max.in.flight.requests.per.connection": "1",
    "delivery.timeout.ms": "2147483647",
}
#: KIP-618, KIP-710: whether Connect's source tasks and MirrorMaker 2 write in transactions.
EXACTLY_ONCE = "exactly.once.source.support"
TRANSACTIONAL = {"enable.idempotence": "true", "transactional.id": "of each source task"}
_WORKER = re.compile(
    r"(config|offset|status)\.storage\.(topic|partitions|replication\.factor)|plugin\.path"
    r"|connector\.client\.config\.override\.policy|exactly\.once\.source\.support"
    r"|offset\.storage\.file\.filename"
)


def settings(source: Source, pairs: Mapping[str, Text]) -> Part | None:
    """Return the clients of a worker or a connector, or of settings such as `producer.acks=1`."""
    produced = under(pairs, "producer.")
    consumed = under(pairs, "consumer.")
    worker = any(map(_WORKER.fullmatch, pairs))
    if "connector.class" in pairs and not (worker and "bootstrap.servers" in pairs):
        return _connector(source, pairs)
    if not (worker or any(map(is_producers, produced)) or any(map(is_consumers, consumed))):
        return None
    if worker:
        warn_of_misspelt(source, pairs, "connect")
    support = support_of(source, pairs)
    exactly_once = support is not None and support.value.lower() == "enabled"
    if exactly_once:  # Worker.exactlyOnceSourceTaskProducerConfigs: whatever the worker says
        produced = {key: value for key, value in produced.items() if key not in TRANSACTIONAL}
    internal = internal_topics(source, pairs, "Connect")
    part = clients(
        source,
        {("producer", ""): produced, **({("consumer", ""): consumed} if consumed else {})},
        shape="Connect worker" if worker else "settings of clients by prefix",
        framework=KAFKA_CONNECT if worker else "",
        defaults=(CONNECT | TRANSACTIONAL if exactly_once else CONNECT) if worker else {},
        origin=ORIGIN,
        prefixes=PREFIXES,
        topics=internal.values(),
    )
    producers = (*part.producers, *internal_writers(source, pairs, internal))
    return replace(
        part,
        producers=tuple(replace(one, exactly_once=support) for one in producers),
        taken=about_topics(source, pairs),
    )


def about_topics(source: Source, pairs: Mapping[str, Text]) -> tuple[Given, ...]:
    """Return what names an internal topic, or says how many replicas it has."""
    return tuple(
        source.given(one)
        for key, one in pairs.items()
        if _NAMED.fullmatch(key) or _INTERNAL.fullmatch(key)
    )


def support_of(source: Source, pairs: Mapping[str, Text]) -> Given | None:
    """Return `exactly.once.source.support`; if several are stated, one that is not enabled."""
    stated = source.settings({key: one for key, one in pairs.items() if key.endswith(EXACTLY_ONCE)})
    return min(stated.values(), key=lambda one: one.value.lower() == "enabled", default=None)


ORIGIN = Default(KAFKA_CONNECT)
#: The topics that Connect and MirrorMaker 2 create for themselves.
_INTERNAL = re.compile(
    r"(?P<prefix>(?P<kind>config|offset|status)\.storage|checkpoints\.topic|heartbeats\.topic"
    r"|offset-syncs\.topic)\.replication\.factor"
)
#: The setting that names such a topic; its replicas are 3 by default (`DistributedConfig`).
_NAMED = re.compile(r"(?P<prefix>(?P<kind>config|offset|status)\.storage)\.topic")
_REPLICAS = Given("3", ORIGIN)


def internal_topics(source: Source, pairs: Mapping[str, Text], of: str) -> dict[str, Topic]:
    """Return the internal topics by their kind, such as `config`."""
    topics = {}
    for key, value in pairs.items():
        if match := _INTERNAL.fullmatch(key) or (value and _NAMED.fullmatch(key)):
            kind, prefix = match["kind"] or match["prefix"], match["prefix"]
            stated = f"{prefix}.replication.factor"
            topics[kind] = Topic(
                name=str(
                    pairs.get(f"{kind}.storage.topic")
                    or f"the {kind.removesuffix('.topic')} topic of {of}"
                ),
                partitions=count(source, pairs, (f"{prefix}.partitions",)),
                settings=source.settings(_own_settings(pairs, kind)),
                replication_factor=(
                    count(source, pairs, (stated,)) if stated in pairs else _REPLICAS
                ),
                internal=True,
            )
    return topics


def _own_settings(pairs: Mapping[str, Text], kind: str) -> dict[str, Text]:
    """Return settings of an internal topic, which begin with its kind (KIP-605).

    Connect sets `cleanup.policy` itself.
    """
    own = under(pairs, f"{kind}.storage.")
    return {key: one for key, one in own.items() if key in known("topic") - {"cleanup.policy"}}


#: What Connect sets for the producers of its own topics, whatever a file says, in all versions
#: (`KafkaBasedLog.createProducer`).
_DURABLE = {"acks": "all", "max.in.flight.requests.per.connection": "1"}
#: Likewise, for each topic (`KafkaConfigBackingStore`, `KafkaOffsetBackingStore`,
#: `KafkaStatusBackingStore`).
_STORES = {
    "config": {"enable.idempotence": "false", "delivery.timeout.ms": "2147483647", **_DURABLE},
    "offset": {"enable.idempotence": "false", "delivery.timeout.ms": "2147483647", **_DURABLE},
    "status": {"enable.idempotence": "false", "retries": "0", **_DURABLE},
}


def internal_writers(
    source: Source, pairs: Mapping[str, Text], topics: Mapping[str, Topic]
) -> list[Client]:
    """Return the producers of internal topics, which `producer.` does not configure.

    pairs: settings without a prefix, which configure them. With exactly-once sources, the leader of
    the workers writes the configuration topic in transactions, and tasks write the offsets topic.
    """
    exactly_once = pairs.get(EXACTLY_ONCE, "").lower()
    exact = {"enabled": ("config", "offset"), "preparing": ("config",)}.get(exactly_once, ())
    in_transactions = {
        "acks": "all",
        "enable.idempotence": "true",
        "transactional.id": "of Connect",
    }
    return [
        Client(
            name=f"{source.name} ({topics[kind].name})",
            library="java",
            settings={
                **source.settings({key: one for key, one in pairs.items() if is_producers(key)}),
                **{key: Given(one, ORIGIN) for key, one in fixed.items()},
            },
            framework=KAFKA_CONNECT,
            writes=topics[kind].name,
        )
        for kind, fixed in _STORES.items()
        if kind in topics
        for fixed in [in_transactions if kind in exact else fixed]
    ]


#: The name of the topics that MirrorMaker 2 creates.
MIRRORED = "mirrored topics"
_CREATES = "topic.creation."


def _connector(source: Source, pairs: Mapping[str, Text]) -> Part:
    """Read a connector: the topics that it creates, and settings of its worker's clients."""
    prefixes = {(kind, ""): f"{kind}.override." for kind in ("producer", "consumer")}
    channels = {of: own for of, prefix in prefixes.items() if (own := under(pairs, prefix))}
    topics = _created_topics(source, pairs)
    if not (channels or topics):
        raise UnrecognisedError(
            "a connector, which has no settings of brokers, topics or clients "
            "(producer.override.…, topic.creation.…): name the properties of its worker"
        )
    return clients(
        source,
        channels,
        shape="connector",
        framework=KAFKA_CONNECT,
        prefixes=prefixes,
        topics=topics,
    )


def _created_topics(source: Source, pairs: Mapping[str, Text]) -> list[Topic]:
    """Return the topics that a source connector creates: of each group of KIP-158."""
    names = dict.fromkeys(
        key[len(_CREATES) :].partition(".")[0] for key in pairs if key.startswith(_CREATES)
    )
    topics = []
    for name in names:
        own = {
            key: value
            for key, value in under(pairs, f"{_CREATES}{name}.").items()
            if key not in ("include", "exclude")
        }
        replicas = count(source, own, ("replication.factor",))
        partitions = count(source, own, ("partitions",))
        settings = source.settings(
            {
                key: one
                for key, one in own.items()
                if key not in ("replication.factor", "partitions")
            }
        )
        if replicas or settings:
            group = "" if name == "default" else f" of the group {name}"
            topics.append(
                Topic(
                    name=f"topics that the connector creates{group}",
                    partitions=partitions,
                    replication_factor=replicas,
                    settings=settings,
                    framework=KAFKA_CONNECT,
                )
            )
    mirrors = pairs.get("connector.class", "").endswith("MirrorSourceConnector")
    if mirrors and (copies := count(source, pairs, ("replication.factor",))):
        topics.append(Topic(name=MIRRORED, replication_factor=copies))
    return topics


def read(source: Source) -> Part | None:
    """Read the properties of a worker or of a connector."""
    return read_as(source, settings)


_EXAMPLE = """\
bootstrap.servers=kafka:9092
group.id=connect
offset.storage.topic=connect-offsets
producer.acks=1
"""
FORMAT = Format(
    name="Kafka Connect",
    order=280,
    reads="workers, with the producers of their own topics; connectors that override settings "
    "of clients (`producer.override.…`) or create topics (`topic.creation.…`)",
    patterns=("*.properties",),
    mentions="offset|storage|produc|consum",
    examples={"connect.properties": _EXAMPLE},
    read=read,
    notation="lines",
)
