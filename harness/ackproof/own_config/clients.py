"""Makes clients of settings: a client's own, Kafka Connect's, MirrorMaker 2's, Streams'."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ackproof.own_config.configuration import (
    KAFKA_CONNECT,
    Client,
    Default,
    Given,
    NoFile,
    Origin,
    Topic,
)
from ackproof.own_config.names import is_consumers, is_librdkafka, is_producers
from ackproof.own_config.parts import UNKNOWN, Part, RefusalError, Source
from ackproof.own_config.tree import Text

#: Names of a topic's replication factor, as people write it.
REPLICAS = ("replication.factor", "replication_factor", "replication-factor")


def count(source: Source, pairs: Mapping[str, Text], names: tuple[str, ...]) -> Given | None:
    """Return a count; None if it is not stated, or -1, the brokers' default."""
    values = {name: pairs[name] for name in names if name in pairs and pairs[name] != "-1"}
    return next(iter(source.settings(values).values()), None)


def client(
    source: Source,
    pairs: Mapping[str, Text],
    *,
    framework: str = "",
    shape: str = "",
    library: str = "",
) -> Part:
    """Return the producer, the consumer, or both that settings describe."""
    library = library or ("librdkafka" if any(map(is_librdkafka, pairs)) else "java")
    consumes = any(map(is_consumers, pairs))
    produces = any(map(is_producers, pairs)) or source.hint == "producer" or not consumes
    if not shape:
        kind = "producer" if not consumes else "client" if produces else "consumer"
        shape = f"{kind} settings of librdkafka" if library != "java" else f"{kind}.properties"
    kinds = ["producer"] * produces + ["consumer"] * consumes
    channels = {(kind, ""): pairs for kind in kinds}
    return clients(source, channels, shape=shape, framework=framework, library=library)


#: The settings of clients, by kind (`producer` or `consumer`) and name; '' is the file's only one.
Channels = Mapping[tuple[str, str], Mapping[str, Text]]


def clients(
    source: Source,
    channels: Channels,
    *,
    shape: str,
    framework: str = "",
    library: str = "java",
    defaults: Mapping[str, str] | None = None,
    origin: Origin = NoFile.UNSTATED,
    prefixes: Mapping[tuple[str, str], str] | None = None,
    topics: Iterable[Topic] = (),
) -> Part:
    """Return the clients of a file, each without settings that only the other kind has.

    defaults: of the framework's producers, from `origin`. prefixes: of the settings' names in the
    file, for each channel.
    """
    made: dict[str, list[Client]] = {"producer": [], "consumer": []}
    for (kind, name), pairs in channels.items():
        produces = kind == "producer"
        own, other = (is_producers, is_consumers) if produces else (is_consumers, is_producers)
        added = {key: Given(one, origin) for key, one in (defaults or {}).items() if produces}
        stated = source.settings(pairs).items()
        settings = {key: given for key, given in stated if own(key) or not other(key)}
        made[kind].append(
            Client(
                name=f"{source.name} ({name})" if name else source.name,
                library=library,
                settings={**added, **settings},
                framework=framework,
                prefix=(prefixes or {}).get((kind, name), ""),
            )
        )
    return Part(
        shape=shape,
        producers=tuple(made["producer"]),
        consumers=tuple(made["consumer"]),
        topics=tuple(topics),
    )


#: Worker.baseProducerConfigs: the settings of Connect's producers unless the worker changes them.
CONNECT = {
    "acks": "all",
    "enable.idempotence": "false",
    "max.in.flight.requests.per.connection": "1",
    "delivery.timeout.ms": "2147483647",
}
#: KIP-618, KIP-710: whether Connect's source tasks and MirrorMaker 2 write in transactions.
EXACTLY_ONCE = "exactly.once.source.support"
_TRANSACTIONAL = {"enable.idempotence": "true", "transactional.id": "of each source task"}
_WORKER = re.compile(
    r"(config|offset|status)\.storage\.(topic|partitions|replication\.factor)|plugin\.path"
    r"|connector\.client\.config\.override\.policy|exactly\.once\.source\.support"
    r"|offset\.storage\.file\.filename"
)


def prefixed(source: Source, pairs: Mapping[str, Text]) -> Part | None:
    """Read a Connect worker, a connector or a Streams application: `producer.acks=1`."""
    if "application.id" in pairs:
        return streams(source, pairs)
    if any(key.startswith("ksql.") for key in pairs):
        return streams(source, {**pairs, **under(pairs, "ksql."), **under(pairs, "ksql.streams.")})
    if server := under(pairs, "debezium.sink.kafka.producer."):
        return clients(
            source,
            {("producer", ""): server},
            shape="Debezium Server",
            prefixes={("producer", ""): "debezium.sink.kafka.producer."},
        )
    produced = under(pairs, "producer.")
    consumed = under(pairs, "consumer.")
    worker = any(map(_WORKER.fullmatch, pairs))
    if "connector.class" in pairs and not (worker and "bootstrap.servers" in pairs):
        return _connector(source, pairs)
    if not (worker or any(map(is_producers, produced)) or any(map(is_consumers, consumed))):
        return None
    support = _support(source, pairs)
    exactly_once = support is not None and support.value.lower() == "enabled"
    if exactly_once:  # Worker.exactlyOnceSourceTaskProducerConfigs: whatever the worker says
        produced = {key: value for key, value in produced.items() if key not in _TRANSACTIONAL}
    internal = _internal(source, pairs, "Connect")
    part = clients(
        source,
        {("producer", ""): produced, **({("consumer", ""): consumed} if consumed else {})},
        shape="Connect worker" if worker else "settings of clients by prefix",
        framework="Kafka Connect" if worker else "",
        defaults=(CONNECT | _TRANSACTIONAL if exactly_once else CONNECT) if worker else {},
        origin=_ORIGIN,
        prefixes=_PREFIXES,
        topics=internal.values(),
    )
    producers = (*part.producers, *_writers(source, pairs, internal))
    return replace(part, producers=tuple(replace(one, exactly_once=support) for one in producers))


def _support(source: Source, pairs: Mapping[str, Text]) -> Given | None:
    """Return whether sources are to write in transactions; of several one that is not enabled."""
    stated = source.settings({key: one for key, one in pairs.items() if key.endswith(EXACTLY_ONCE)})
    return min(stated.values(), key=lambda one: one.value.lower() == "enabled", default=None)


_ORIGIN = Default(KAFKA_CONNECT)
_PREFIXES = {("producer", ""): "producer.", ("consumer", ""): "consumer."}
#: The topics that Connect and MirrorMaker 2 create for themselves.
_INTERNAL = re.compile(
    r"(?P<prefix>(?P<kind>config|offset|status)\.storage|checkpoints\.topic|heartbeats\.topic"
    r"|offset-syncs\.topic)\.replication\.factor"
)


#: The setting that names such a topic; its replicas are 3 by default (`DistributedConfig`).
_NAMED = re.compile(r"(?P<prefix>(?P<kind>config|offset|status)\.storage)\.topic")
_REPLICAS = Given("3", _ORIGIN)


def _internal(source: Source, pairs: Mapping[str, Text], of: str) -> dict[str, Topic]:
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
                replication_factor=(
                    count(source, pairs, (stated,)) if stated in pairs else _REPLICAS
                ),
                internal=True,
            )
    return topics


#: What Connect sets for the producers of its own topics, whatever a file says
#: (`KafkaConfigBackingStore`, `KafkaOffsetBackingStore`, `KafkaStatusBackingStore`).
_STORES = {
    "config": {"enable.idempotence": "false", "delivery.timeout.ms": "2147483647"},
    "offset": {"enable.idempotence": "false", "delivery.timeout.ms": "2147483647"},
    "status": {"enable.idempotence": "false", "retries": "0"},
}


def _writers(
    source: Source, pairs: Mapping[str, Text], topics: Mapping[str, Topic]
) -> list[Client]:
    """Return the producers of internal topics, which `producer.` does not configure.

    pairs: settings without a prefix, which do. With exactly-once sources the leader of the workers
    writes the topic of configurations in transactions, and tasks that of offsets.
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
                **{key: Given(one, _ORIGIN) for key, one in fixed.items()},
            },
            framework="Kafka Connect",
            writes=topics[kind].name,
        )
        for kind, fixed in _STORES.items()
        if kind in topics
        for fixed in [in_transactions if kind in exact else fixed]
    ]


def streams(source: Source, pairs: Mapping[str, Text], shape: str = "Kafka Streams") -> Part:
    """Return the clients of a Streams application.

    `StreamsConfig`: consumers begin at the earliest offset, and with `exactly_once_v2` producers
    are transactional and consumers read what is committed.
    """
    guarantee = pairs.get("processing.guarantee", Text.at("", 0))
    exactly_once = guarantee.startswith("exactly_once")
    consumed = {
        "auto.offset.reset": Text.at("earliest", guarantee.line),
        **({"isolation.level": Text.at("read_committed", guarantee.line)} if exactly_once else {}),
    }
    origin = source.where(guarantee) if exactly_once else Default("Kafka Streams")
    added = {"acks": "all", "enable.idempotence": "true"} if exactly_once else {}
    if exactly_once:
        added["transactional.id"] = str(pairs.get("application.id") or "of the application")
    topic = Topic(
        name="the internal topics of Kafka Streams",
        replication_factor=count(source, pairs, REPLICAS),
        internal=True,
    )
    part = clients(
        source,
        {
            ("producer", ""): under(pairs, "producer."),
            ("consumer", ""): {**under(pairs, "consumer."), **under(pairs, "main.consumer.")},
        },
        shape=shape,
        framework="Kafka Streams",
        defaults=added,
        origin=origin,
        prefixes=_PREFIXES,
        topics=[topic] if "replication.factor" in pairs else [],
    )
    [consumer] = part.consumers
    settings = {key: Given(str(value), origin) for key, value in consumed.items()}
    return replace(part, consumers=(replace(consumer, settings={**settings, **consumer.settings}),))


def _connector(source: Source, pairs: Mapping[str, Text]) -> Part:
    """Read a connector, as far as it replaces settings of its worker's clients."""
    prefixes = {(kind, ""): f"{kind}.override." for kind in ("producer", "consumer")}
    channels = {of: own for of, prefix in prefixes.items() if (own := under(pairs, prefix))}
    if not channels:
        raise RefusalError(
            f"{UNKNOWN}: a connector, which has no settings of brokers, topics or clients "
            "(producer.override.…): name the properties of its worker"
        )
    return clients(
        source,
        channels,
        shape="connector",
        framework="Kafka Connect",
        prefixes=prefixes,
    )


def under(pairs: Mapping[str, Text], prefix: str) -> dict[str, Text]:
    """Return the settings whose names begin with a prefix, without it."""
    return {
        key.removeprefix(prefix): value for key, value in pairs.items() if key.startswith(prefix)
    }


_MIRRORED = re.compile(
    r"(?:(?P<cluster>[\w.\-]+?)(?:->[\w.\-]+?)?\.)?(?P<kind>producer|consumer)\.(?P<key>.+)"
)


def mirror_maker(source: Source, pairs: Mapping[str, Text]) -> Part | None:
    """Read MirrorMaker 2: `clusters = A, B`, `A->B.enabled`, `B.producer.acks`."""
    names = [name.strip() for name in pairs.get("clusters", Text.at("", 0)).split(",")]
    listed = any(f"{name}.bootstrap.servers" in pairs for name in names)
    if not listed and not any(re.match(r"[\w.-]+->[\w.-]+\.\w", key) for key in pairs):
        return None
    found: dict[tuple[str, str], dict[str, Text]] = {}
    prefixes = dict(_PREFIXES)
    for key, value in pairs.items():
        if match := _MIRRORED.fullmatch(key):
            of = match["kind"], match["cluster"] or ""
            found.setdefault(of, {})[match["key"]] = value
            prefixes.setdefault(of, key[: match.start("key")])
    found.setdefault(("producer", ""), {})
    replicas = count(source, pairs, ("replication.factor",))
    topic = Topic(name="mirrored topics", replication_factor=replicas)
    internal = _internal(source, pairs, "MirrorMaker 2")
    support = _support(source, pairs)
    exactly_once = support is not None and support.value.lower() == "enabled"
    part = clients(
        source,
        {
            (kind, cluster): {**found.get((kind, ""), {}), **own}
            for (kind, cluster), own in found.items()
            if cluster or not any(other for of, other in found if of == kind)
        },
        shape="MirrorMaker 2",
        framework="MirrorMaker 2",
        defaults=CONNECT | _TRANSACTIONAL if exactly_once else CONNECT,
        origin=_ORIGIN,
        prefixes=prefixes,
        topics=[*([topic] if replicas else []), *internal.values()],
    )
    writers = _writers(source, {}, internal)
    if "offset-syncs.topic" in internal:  # MirrorSourceConfig.sourceProducerConfig
        written = internal["offset-syncs.topic"].name
        [syncs] = client(source, found.get(("producer", ""), {})).producers
        name, prefix = f"{source.name} ({written})", _PREFIXES["producer", ""]
        writers.append(replace(syncs, name=name, writes=written, prefix=prefix))
    producers = (*part.producers, *writers)
    return replace(part, producers=tuple(replace(one, exactly_once=support) for one in producers))
